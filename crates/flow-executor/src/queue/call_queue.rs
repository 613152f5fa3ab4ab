//! The calls that wait, shared by the server and the workers.
//!
//! `batcher.rs` decides which calls leave. A worker that finds none sleeps, and the next call wakes it. A worker that
//! takes a batch and leaves others wakes the next worker. A caller may take short calls itself.

use std::time::{Duration, Instant};

use super::batcher::{Batcher, LeaveReason, Next, QueuedRequest};
use super::call::Call;
use crate::sdk::BatchMetric;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, thread};

/// How often a worker yields before it sleeps. That takes some microseconds per batch if nothing else runs, and under
/// load the next call has arrived by then. Waking a thread takes longer than a short call.
const YIELDS: u32 = 8;

/// The calls that wait.
#[derive(Debug)]
pub(crate) struct CallQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    batcher: Batcher<Call>,
    /// Calls whose documents have no weights yet; a worker computes them with the executor.
    unweighed: Vec<Call>,
    sleeping_workers: usize,
    workers: usize,
    /// Whether more calls may arrive.
    has_callers: bool,
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Work {
    /// Compute the weights of these calls, and push them again.
    Weigh(Vec<Call>),
    /// Run these calls together.
    Run(Vec<Call>, LeaveReason),
}

/// What a caller finds that would run calls itself.
#[derive(Debug)]
pub(crate) enum NextIf {
    /// Calls that it runs.
    Work(Work),
    /// A worker runs those that wait.
    No,
    /// No call waits.
    Empty,
}

/// Counts a worker. When the last one ends, all waiting calls fail.
#[derive(Debug)]
pub(crate) struct WorkerGuard(Arc<CallQueue>);

/// Counts the server as a source of calls. When it is dropped, the workers end.
#[derive(Debug)]
pub(crate) struct CallersGuard(Arc<CallQueue>);

impl CallQueue {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                batcher: Batcher::new(),
                unweighed: Vec::new(),
                sleeping_workers: 0,
                workers: 0,
                has_callers: true,
            }),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn register_worker(self: &Arc<Self>) -> WorkerGuard {
        self.lock().workers += 1;
        WorkerGuard(Arc::clone(self))
    }

    pub(crate) fn register_callers(self: &Arc<Self>) -> CallersGuard {
        CallersGuard(Arc::clone(self))
    }

    /// Adds a call; `false` if all workers have ended.
    pub(crate) fn push(&self, call: Call) -> bool {
        let mut state = self.lock();
        let is_added = state.push(call);
        self.wake_one(&state);
        is_added
    }

    /// Adds a call; `false` if all workers have ended. No worker is woken: the caller asks for work next, or calls
    /// [`wake`](Self::wake).
    pub(crate) fn push_unannounced(&self, call: Call) -> bool {
        self.lock().push(call)
    }

    /// Wakes a worker if calls wait and one sleeps.
    pub(crate) fn wake(&self) {
        let state = self.lock();
        if state.has_calls() {
            self.wake_one(&state);
        }
    }

    /// The calls that may leave now, for a caller that runs them itself if it wants to, given all that wait.
    pub(crate) fn next_if(
        &self,
        is_wanted: impl FnOnce(&mut dyn Iterator<Item = &Call>) -> bool,
    ) -> NextIf {
        let mut state = self.lock();
        if !state.has_calls() {
            return NextIf::Empty;
        }
        // A worker computes weights.
        if !state.unweighed.is_empty() || !is_wanted(&mut state.batcher.iter()) {
            return NextIf::No;
        }
        let now = Instant::now();
        match state.batcher.next(now) {
            Next::Call(mut batch, reason) => {
                batch.iter_mut().for_each(|call| call.leave_queue(now));
                NextIf::Work(Work::Run(batch, reason))
            }
            // All callers have gone.
            Next::Idle => NextIf::Empty,
            Next::WaitUntil(_) => NextIf::No,
        }
    }

    /// Waits for work; `None` once the queue is empty and no more calls can arrive.
    pub(crate) fn next(&self) -> Option<Work> {
        let asked = Instant::now();
        let mut yields = 0;
        let mut state = self.lock();
        loop {
            if !state.unweighed.is_empty() {
                return Some(Work::Weigh(std::mem::take(&mut state.unweighed)));
            }
            let now = Instant::now();
            let until = match state.batcher.next(now) {
                Next::Call(mut batch, reason) => {
                    batch.iter_mut().for_each(|call| call.leave_queue(asked));
                    if !state.batcher.is_empty() {
                        self.wake_one(&state);
                    }
                    return Some(Work::Run(batch, reason));
                }
                Next::Idle if !state.has_callers => return None,
                Next::Idle if yields < YIELDS => {
                    yields += 1;
                    drop(state);
                    thread::yield_now();
                    state = self.lock();
                    continue;
                }
                Next::Idle => None,
                Next::WaitUntil(then) => Some(then),
            };
            state = self.sleep(state, until.map(|then| then.duration_since(now)));
        }
    }

    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        state.sleeping_workers += 1;
        let mut state = match at_most {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let woken = self.changed.wait_timeout(state, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.sleeping_workers -= 1;
        state
    }

    /// Wakes a worker if one sleeps; waking is a system call.
    fn wake_one(&self, state: &State) {
        if state.sleeping_workers > 0 {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, call: Call) -> bool {
        if self.workers == 0 {
            return false;
        }
        if call.rule().metric() == BatchMetric::Custom && !call.is_weighed() {
            self.unweighed.push(call);
        } else {
            self.batcher.push(call);
        }
        true
    }

    fn has_calls(&self) -> bool {
        !self.batcher.is_empty() || !self.unweighed.is_empty()
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers -= 1;
        if state.workers == 0 {
            // A call that is dropped fails its request.
            state.batcher = Batcher::new();
            state.unweighed.clear();
        }
    }
}

impl Drop for CallersGuard {
    fn drop(&mut self) {
        self.0.lock().has_callers = false;
        self.0.changed.notify_all();
    }
}
