//! The queue of calls of an executor, which its server fills and its workers empty.
//!
//! Calls are numbers here, and a batch is one call: which calls share a batch is decided without threads.

#[path = "../../../../crates/flow-executor/src/queue/call_queue.rs"]
mod call_queue;

mod batcher;
mod call;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use self::call::Call;
use self::call_queue::{CallQueue, NextIf, Work};
use crate::sync::{Arc, Mutex};

pub(crate) fn each_call_runs_once() {
    let queue = CallQueue::new();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let worker = |_| {
        let (queue, ran) = (Arc::clone(&queue), Arc::clone(&ran));
        let registered = queue.register_worker();
        thread::spawn(move || {
            let _registered = registered;
            while let Some(work) = queue.next() {
                match work {
                    Work::Weigh(calls) => {
                        for call in calls {
                            assert!(queue.push(call.weighed()), "this worker has not ended");
                        }
                    }
                    Work::Run(calls, _) => {
                        ran.lock().unwrap().extend(calls.iter().map(Call::number))
                    }
                }
            }
        })
    };
    let workers: Vec<_> = (0..2).map(worker).collect();
    let callers = queue.register_callers();
    let caller = |first: usize| {
        let queue = Arc::clone(&queue);
        // Every second call has no weight yet.
        thread::spawn(move || (first..first + 2).for_each(|it| assert!(queue.push(Call::new(it)))))
    };
    let clients: Vec<_> = [0, 2].into_iter().map(caller).collect();
    let unannounced = {
        let (queue, ran) = (Arc::clone(&queue), Arc::clone(&ran));
        thread::spawn(move || {
            for number in 4..6 {
                assert!(queue.push_unannounced(Call::new(number)));
                run_or_wake(&queue, &ran);
            }
        })
    };
    clients.into_iter().for_each(|it| it.join().unwrap());
    unannounced.join().unwrap();
    drop(callers);
    workers.into_iter().for_each(|it| it.join().unwrap());
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2, 3, 4, 5]);
}

/// Runs the calls that wait, or leaves them to a worker at random.
fn run_or_wake(queue: &CallQueue, ran: &Mutex<Vec<usize>>) {
    loop {
        match queue.next_if(|calls| calls.count() < 3 && thread_rng().gen_bool(0.5)) {
            NextIf::Work(Work::Run(calls, _)) => {
                ran.lock().unwrap().extend(calls.iter().map(Call::number));
            }
            NextIf::Work(Work::Weigh(_)) => unreachable!("a worker computes weights"),
            NextIf::No => return queue.wake(),
            NextIf::Empty => return,
        }
    }
}
