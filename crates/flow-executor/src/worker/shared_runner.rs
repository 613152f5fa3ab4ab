//! An executor that its worker shares with the threads that read requests, which run short calls at once.
//!
//! Waking a sleeping worker, and being woken by it, can take longer than a short call. A call is short if earlier ones of the same
//! method and size were; [`CallTimes`] keeps count. A thread that runs a call reads and answers nothing meanwhile, so all others run on
//! the worker.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::runner::CallRunner;
use crate::endpoint_table::MethodIdx;
use crate::queue::{Call, CallQueue, CallTimes, NextIf, ShortCallRunner, Work};
use crate::sdk::SharedExecutor;

/// The time for which a thread that reads requests may run calls before it reads on.
const SHORT_MAX: Duration = Duration::from_millis(2);

/// An executor, and how long its calls take.
pub(crate) struct SharedRunner<E> {
    executor: SharedExecutor<E>,
    /// Only used by the thread that uses the executor.
    runner: Mutex<CallRunner<E>>,
    times: CallTimes,
}

impl<E: 'static> SharedRunner<E> {
    /// Calls of requests of `below` bytes or more are never short.
    pub(crate) fn new(executor: SharedExecutor<E>, runner: CallRunner<E>, below: usize) -> Self {
        Self {
            executor,
            times: CallTimes::new(runner.endpoints.bindings.len(), below),
            runner: Mutex::new(runner),
        }
    }

    /// Does this work, once no other thread uses the executor.
    pub(crate) fn run(&self, work: Work, queue: &CallQueue) {
        self.run_timed(&mut self.executor.lock(), work, queue);
    }

    /// Whether calls together take no more than this time.
    fn take_at_most(&self, left: Duration, calls: &mut dyn Iterator<Item = &Call>) -> bool {
        let mut sum = Duration::ZERO;
        for call in calls {
            match self.expected(call) {
                Some(expected) => sum += expected,
                None => return false,
            }
            if sum > left {
                return false;
            }
        }
        true
    }

    fn expected(&self, call: &Call) -> Option<Duration> {
        self.times.expected(call.method, call.len())
    }

    fn run_timed(&self, executor: &mut E, work: Work, queue: &CallQueue) {
        let single = single(&work);
        let began = Instant::now();
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        runner.work(executor, work, queue);
        if let Some(single) = single {
            self.times.observe(single, began.elapsed());
        }
    }
}

impl<E: 'static> ShortCallRunner for SharedRunner<E> {
    fn may_be_short(&self, call: &Call) -> bool {
        self.expected(call).is_some_and(|it| it <= SHORT_MAX)
    }

    fn run_short_calls(&self, queue: &CallQueue) -> bool {
        let Some(mut executor) = self.executor.try_lock() else {
            return false;
        };
        let began = Instant::now();
        loop {
            let left = SHORT_MAX.saturating_sub(began.elapsed());
            match queue.next_if(|calls| self.take_at_most(left, calls)) {
                NextIf::Work(work) => self.run_timed(&mut executor, work, queue),
                NextIf::Empty => return true,
                NextIf::No => return false,
            }
        }
    }
}

/// The method and the size of the only call.
fn single(work: &Work) -> Option<(MethodIdx, usize)> {
    match work {
        Work::Run(batch, _) if batch.len() == 1 => Some((batch[0].method, batch[0].len())),
        _ => None,
    }
}
