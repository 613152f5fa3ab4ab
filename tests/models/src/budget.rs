//! The budget of bytes: a waiter gets room, on whichever thread bytes are released.

use shuttle::future::block_on;
use shuttle::thread;

use crate::byte_budget::ByteBudget;

pub(crate) fn room_is_found() {
    let whole = ByteBudget::new(8);
    let client = |whole: &ByteBudget| {
        let connection = whole.for_connection();
        move || {
            for _ in 0..2 {
                block_on(connection.room());
                let mut held = connection.hold(3);
                held.set(8);
                held.set(1);
            }
        }
    };
    let clients: Vec<_> = (0..3).map(|_| thread::spawn(client(&whole))).collect();
    clients.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(whole.held(), 0);
    assert!(whole.has_room());
}
