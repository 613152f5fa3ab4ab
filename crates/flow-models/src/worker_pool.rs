//! A pool of threads that work on one batch each.
//!
//! Workers share nothing but the weights. Splitting work by batches scales better than splitting each matrix product,
//! whose parts would have to wait for each other a hundred times per text. Where GPUs compute, some workers wait for
//! them, and the others tokenize.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// A fixed number of threads, which sleep while there is nothing to do.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    // One rayon pool of one thread per worker, so that code on a worker cannot spread to the other workers. Empty for a
    // single worker: it is the caller's thread.
    threads: Vec<ThreadPool>,
}

impl WorkerPool {
    /// Starts a pool of `size` workers.
    ///
    /// # Errors
    ///
    /// If the operating system refuses a thread.
    pub(crate) fn start(size: NonZeroUsize) -> Result<Self, ThreadPoolBuildError> {
        let start = |worker: usize| {
            ThreadPoolBuilder::new()
                .num_threads(1)
                .thread_name(move |_| format!("worker-{worker}"))
                .build()
        };
        let threads = if size == NonZeroUsize::MIN {
            0
        } else {
            size.get()
        };
        Ok(Self {
            threads: (0..threads).map(start).collect::<Result<_, _>>()?,
        })
    }

    /// Number of workers.
    pub(crate) fn size(&self) -> usize {
        self.threads.len().max(1)
    }

    /// Runs `work` on all workers at the same time, with the index of each, and waits for all of them.
    ///
    /// The caller's thread takes the place of worker 0, so that it need not be woken and no other thread has to wake it
    /// at the end. Workers may wait for each other, as long as there is one such call at a time.
    pub(crate) fn run_on_all(&self, work: &(dyn Fn(usize) + Sync)) {
        let others = self.threads.get(1..).unwrap_or_default();
        run_on_each(others, 1, work, &|| work(0));
    }

    /// Runs `work` on each of `items`, in order, on the first `item_workers` workers, and on each of `fillers` on all
    /// workers that have no item. Results are in the order in which they were completed.
    pub(crate) fn run<I: Sync, T: Send>(
        &self,
        (items, fillers): (&[I], &[I]),
        item_workers: usize,
        work: impl Fn(&I) -> T + Sync,
    ) -> Vec<T> {
        let (next_item, next_filler) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = Mutex::new(Vec::with_capacity(items.len() + fillers.len()));
        let take_from = |list: &[I], next: &AtomicUsize| {
            while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = work(item);
                // A panic on another worker does not interrupt a push, so the list is intact.
                results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(result);
            }
        };
        let run_worker = |worker: usize| {
            if worker < item_workers {
                take_from(items, &next_item);
            }
            take_from(fillers, &next_filler);
        };
        if self.threads.is_empty() {
            run_worker(0);
        }
        run_on_each(&self.threads, 0, &run_worker, &|| ());
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` on each thread and `own` on this one, at the same time, and waits for all. The first thread's index is
/// `first`.
fn run_on_each(
    threads: &[ThreadPool],
    first: usize,
    work: &(dyn Fn(usize) + Sync),
    own: &dyn Fn(),
) {
    let Some((thread, rest)) = threads.split_first() else {
        return own();
    };
    thread.in_place_scope(|scope| {
        scope.spawn(move |_| work(first));
        run_on_each(rest, first + 1, work, own);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(size: usize) -> WorkerPool {
        WorkerPool::start(NonZeroUsize::new(size).unwrap()).unwrap()
    }

    #[test]
    fn each_item_is_processed_once() {
        for size in 1..4 {
            let numbers: Vec<usize> = (0..100).collect();
            let (items, fillers) = numbers.split_at(40);
            let mut results = pool(size).run((items, fillers), 1, |item| item * 2);
            results.sort_unstable();
            assert_eq!(results, (0..200).step_by(2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn code_on_a_worker_does_not_spread_to_other_workers() {
        let threads = pool(2).run((&[(); 4], &[]), 2, |()| rayon::current_num_threads());
        assert_eq!(threads, [1; 4]);
    }

    #[test]
    fn workers_that_run_together_can_wait_for_each_other() {
        for size in 1..4 {
            let pool = pool(size);
            let barrier = std::sync::Barrier::new(size);
            let workers = AtomicUsize::new(0);
            pool.run_on_all(&|worker| {
                barrier.wait();
                workers.fetch_add(1 << worker, Ordering::Relaxed);
            });
            assert_eq!(workers.into_inner(), (1 << size) - 1);
        }
    }

    #[test]
    fn the_other_workers_process_fillers_while_some_process_items() {
        // The item waits for all fillers, so these must run on other workers.
        let fillers = AtomicUsize::new(0);
        let results = pool(3).run((&[true], &[false; 20]), 1, |is_item| {
            while *is_item && fillers.load(Ordering::Relaxed) < 20 {
                std::thread::yield_now();
            }
            fillers.fetch_add(1, Ordering::Relaxed);
            *is_item
        });
        assert_eq!((results.len(), results[20]), (21, true));
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
        let pool = pool(2);
        let run = || pool.run((&[1, 2, 3], &[]), 2, |item| assert_ne!(*item, 2));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        assert_eq!(pool.run((&[1], &[]), 2, |item| *item), [1]);
    }
}
