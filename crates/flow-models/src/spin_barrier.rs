//! A barrier for threads that meet every few microseconds: they spin instead of sleeping.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Checks before a thread yields at each further check. They take a few microseconds, in which the others arrive if each has a
/// core of its own. If two share a core, each wait lasts this long, and a text has 25 of them or more.
const SPINS: u32 = 100;

/// A reusable barrier.
pub(crate) struct SpinBarrier {
    threads: usize,
    arrivals: AtomicUsize,
    is_poisoned: AtomicBool,
}

/// Poisons a barrier when it is dropped during a panic, so that the other threads do not wait forever.
pub(crate) struct PoisonOnPanic<'a>(pub(crate) &'a SpinBarrier);

impl SpinBarrier {
    /// Creates a barrier for `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrivals: AtomicUsize::new(0),
            is_poisoned: AtomicBool::new(false),
        }
    }

    /// Waits until all threads have called this as often as the caller.
    ///
    /// # Panics
    ///
    /// If another thread has panicked.
    pub(crate) fn wait(&self) {
        let arrival = self.arrivals.fetch_add(1, Ordering::AcqRel);
        let target = (arrival / self.threads + 1) * self.threads;
        let mut spins = 0_u32;
        while self.arrivals.load(Ordering::Acquire) < target {
            assert!(
                !self.is_poisoned.load(Ordering::Relaxed),
                "another worker panicked"
            );
            spins = spins.saturating_add(1);
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_poisoned.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::worker_pool::WorkerPool;

    #[test]
    fn a_panic_on_one_worker_ends_the_wait_of_the_others() {
        let pool = WorkerPool::start(NonZeroUsize::new(3).unwrap()).unwrap();
        for panicking in 0..3 {
            let barrier = SpinBarrier::new(3);
            let passed = AtomicUsize::new(0);
            let run = || {
                pool.run_on_all(&|worker| {
                    let _poison = PoisonOnPanic(&barrier);
                    assert_ne!(worker, panicking, "this worker panics");
                    barrier.wait();
                    passed.fetch_add(1, Ordering::Relaxed);
                });
            };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert_eq!(passed.into_inner(), 0, "worker {panicking}");
        }
    }

    #[test]
    fn a_barrier_can_be_used_again_and_again() {
        let pool = WorkerPool::start(NonZeroUsize::new(3).unwrap()).unwrap();
        let barrier = SpinBarrier::new(3);
        pool.run_on_all(&|_| (0..100).for_each(|_| barrier.wait()));
        assert_eq!(barrier.arrivals.into_inner(), 300);
    }
}
