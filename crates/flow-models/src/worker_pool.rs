//! Threads that compute beside each other, each with a chunk of its own.
//!
//! Nothing is shared between lanes but the weights: cutting the work by texts scales better than
//! cutting each matrix product, whose pieces would have to wait for each other a hundred times a text. Where GPUs compute,
//! some lanes wait for them and the others do what is left to the processor.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// One thread for each lane. They sleep while there is nothing to do.
#[derive(Debug)]
pub(crate) struct Lanes {
    // A pool of one thread each: what runs there cannot spread its own work over the other lanes. Empty
    // if there is one lane only: it is the caller's thread, and may spread its work as it likes.
    pools: Vec<ThreadPool>,
}

impl Lanes {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub(crate) fn start(count: NonZeroUsize) -> Result<Self, ThreadPoolBuildError> {
        let start = |lane: usize| {
            ThreadPoolBuilder::new()
                .num_threads(1)
                .thread_name(move |_| format!("lane-{lane}"))
                .build()
        };
        let pools = if count == NonZeroUsize::MIN {
            0
        } else {
            count.get()
        };
        Ok(Self {
            pools: (0..pools).map(start).collect::<Result<_, _>>()?,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.pools.len().max(1)
    }

    /// Runs `work` for all lanes at the same time, each with its number, and waits for all. The first is the caller's own
    /// thread: it need not be woken, and no other has to wake it when all is done.
    ///
    /// They may wait for each other, if nobody else calls this meanwhile.
    pub(crate) fn run_together(&self, work: &(dyn Fn(usize) + Sync)) {
        let others = self.pools.get(1..).unwrap_or_default();
        run_on_all(others, 1, work, &|| work(0));
    }

    /// Runs `work` on each of `items`, in order, on the first `takers` lanes, and on each of `others` on all that have
    /// no item; what it returns comes in the order in which it was done.
    pub(crate) fn run<I: Sync, T: Send>(
        &self,
        (items, others): (&[I], &[I]),
        takers: usize,
        work: impl Fn(&I) -> T + Sync,
    ) -> Vec<T> {
        let (next_item, next_other) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let done = Mutex::new(Vec::with_capacity(items.len() + others.len()));
        let take = |list: &[I], next: &AtomicUsize| {
            while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = work(item);
                // A panic of another lane ends the whole run; what it left in the list is whole.
                done.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(result);
            }
        };
        let lane = |number: usize| {
            if number < takers {
                take(items, &next_item);
            }
            take(others, &next_other);
        };
        if self.pools.is_empty() {
            lane(0);
        }
        run_on_all(&self.pools, 0, &lane, &|| ());
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` in each pool at once, and `own` on this thread, and waits for all; the first pool's number is `number`.
fn run_on_all(pools: &[ThreadPool], number: usize, work: &(dyn Fn(usize) + Sync), own: &dyn Fn()) {
    let Some((first, rest)) = pools.split_first() else {
        return own();
    };
    first.in_place_scope(|scope| {
        scope.spawn(move |_| work(number));
        run_on_all(rest, number + 1, work, own);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once() {
        for lanes in 1..4 {
            let lanes = Lanes::start(NonZeroUsize::new(lanes).unwrap()).unwrap();
            let items: Vec<usize> = (0..100).collect();
            let (some, others) = items.split_at(40);
            let mut results = lanes.run((some, others), 1, |item| item * 2);
            results.sort_unstable();
            assert_eq!(results, (0..200).step_by(2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn work_in_a_lane_stays_in_it() {
        let lanes = Lanes::start(NonZeroUsize::new(2).unwrap()).unwrap();
        let threads = lanes.run((&[(); 4], &[]), 2, |()| rayon::current_num_threads());
        assert_eq!(threads, [1; 4]);
    }

    #[test]
    fn lanes_that_run_together_can_wait_for_each_other() {
        for count in 1..4 {
            let lanes = Lanes::start(NonZeroUsize::new(count).unwrap()).unwrap();
            let barrier = std::sync::Barrier::new(count);
            let numbers = AtomicUsize::new(0);
            lanes.run_together(&|lane| {
                barrier.wait();
                numbers.fetch_add(1 << lane, Ordering::Relaxed);
            });
            assert_eq!(numbers.into_inner(), (1 << count) - 1);
        }
    }

    #[test]
    fn only_so_many_lanes_take_items_and_the_others_go_on_meanwhile() {
        let lanes = Lanes::start(NonZeroUsize::new(3).unwrap()).unwrap();
        // The item waits for all the others, which therefore run elsewhere.
        let others = AtomicUsize::new(0);
        let done = lanes.run((&[true], &[false; 20]), 1, |is_item| {
            while *is_item && others.load(Ordering::Relaxed) < 20 {
                std::thread::yield_now();
            }
            others.fetch_add(1, Ordering::Relaxed);
            *is_item
        });
        assert_eq!((done.len(), done[20]), (21, true));
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let lanes = Lanes::start(NonZeroUsize::new(2).unwrap()).unwrap();
        let run = || lanes.run((&[1, 2, 3], &[]), 2, |item| assert_ne!(*item, 2));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        assert_eq!(lanes.run((&[1], &[]), 2, |item| *item), [1]);
    }
}
