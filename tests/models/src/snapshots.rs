//! The store of snapshots of a gateway, in which placements are replaced while requests run.

use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};

use crate::pools::{PlacementError, PlacementIndependent};
use crate::snapshot::{Dropped, Placement};
use crate::snapshot_store::SnapshotStore;
use crate::sync::Arc;

fn store(dropped: &Dropped) -> Arc<SnapshotStore> {
    let first = placement(dropped);
    Arc::new(SnapshotStore::new(first, PlacementIndependent).unwrap())
}

fn placement(dropped: &Dropped) -> Placement {
    Placement {
        dropped: dropped.clone(),
        ..Placement::default()
    }
}

/// Two requests after each other, each with the snapshot that it began with.
fn client(store: &Arc<SnapshotStore>) -> JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || {
        let mut newest = 0;
        for _ in 0..2 {
            let snapshot = store.newest();
            let number = snapshot.number();
            assert!(number >= newest, "a later request sees an older snapshot");
            newest = number;
            thread::yield_now();
            assert_eq!(snapshot.number(), number);
        }
    })
}

/// Replaces the placement, and waits until no request uses one before it.
fn replaces(store: &Arc<SnapshotStore>, dropped: &Dropped) -> JoinHandle<()> {
    let (store, dropped) = (Arc::clone(store), dropped.clone());
    thread::spawn(move || {
        let placement = placement(&dropped);
        let number = Arc::clone(&placement.number);
        let placed = store.place(placement).unwrap();
        let number = *number.lock().unwrap();
        assert!(store.newest().number() >= number);
        block_on(placed.everywhere());
        for earlier in 0..number {
            assert!(dropped.contains(earlier), "snapshot {earlier} is in use");
        }
    })
}

pub(crate) fn are_whole_and_end() {
    let dropped = Dropped::default();
    let store = store(&dropped);
    let threads = [
        client(&store),
        replaces(&store, &dropped),
        client(&store),
        replaces(&store, &dropped),
    ];
    threads.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(store.newest().number(), 2);
    assert!(!dropped.contains(2));
    drop(store);
    assert!(dropped.contains(2), "the last snapshot is not dropped");
}

pub(crate) fn refused() {
    let dropped = Dropped::default();
    let store = store(&dropped);
    let refused = {
        let (store, dropped) = (Arc::clone(&store), dropped.clone());
        thread::spawn(move || {
            let placement = Placement {
                is_refused: true,
                ..placement(&dropped)
            };
            assert_eq!(store.place(placement).err(), Some(PlacementError));
        })
    };
    let threads = [refused, client(&store), replaces(&store, &dropped)];
    threads.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(store.newest().number(), 1);
    assert!(dropped.contains(0) && !dropped.contains(1));
}
