//! The requests that wait, and the workers that pull from them.
//!
//! Decides nothing: `batch.rs` says who leaves. A worker that finds nothing sleeps, and is woken by the
//! next request; one that takes a batch and leaves others behind wakes the next worker.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::admission::Call;
use crate::batch::{Batcher, Metric, Next, Waiting};

/// How often a worker looks for its next call before it sleeps. Yielding is no spinning: with nobody else
/// to run, these are some microseconds after each batch, and under load the next call is there by then;
/// being woken up costs more than a short call does.
const YIELDS: u32 = 8;

/// What waits, shared by those who bring requests and those who work.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    come: Condvar,
}

#[derive(Debug)]
struct State {
    batcher: Batcher<Call>,
    /// Their documents' weights are the executor's to say, so a worker does.
    unweighed: Vec<Call>,
    /// Workers that wait for something to come.
    sleeping: usize,
    /// Workers there are.
    workers: usize,
    /// Somebody may still bring requests.
    has_callers: bool,
}

/// What a worker is to do next.
#[derive(Debug)]
pub(crate) enum Work {
    /// Weigh the documents of these, and give them back.
    Weigh(Vec<Call>),
    /// Run these together.
    Run(Vec<Call>),
}

/// One worker's seat; when the last is left, whoever waits is told that nobody will come.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Queue>);

/// Those who bring requests; when they are gone, the workers end.
#[derive(Debug)]
pub(crate) struct Callers(Arc<Queue>);

impl Queue {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                batcher: Batcher::new(),
                unweighed: Vec::new(),
                sleeping: 0,
                workers: 0,
                has_callers: true,
            }),
            come: Condvar::new(),
        })
    }

    pub(crate) fn seat(self: &Arc<Self>) -> Seat {
        self.lock().workers += 1;
        Seat(Arc::clone(self))
    }

    pub(crate) fn callers(self: &Arc<Self>) -> Callers {
        Callers(Arc::clone(self))
    }

    /// Lets a request in; `false` if nobody is there to do it.
    pub(crate) fn push(&self, call: Call) -> bool {
        let mut state = self.lock();
        if state.workers == 0 {
            return false;
        }
        if call.rule().metric() == Metric::Custom && !call.is_weighed() {
            state.unweighed.push(call);
        } else {
            state.batcher.push(call);
        }
        self.wake_one(&state);
        true
    }

    /// Waits for work; none once nobody brings any.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut looks = 0;
        let mut state = self.lock();
        loop {
            if !state.unweighed.is_empty() {
                return Some(Work::Weigh(std::mem::take(&mut state.unweighed)));
            }
            let now = Instant::now();
            let until = match state.batcher.next(now) {
                Next::Call(mut batch) => {
                    batch.iter_mut().for_each(Call::leave_lane);
                    if !state.batcher.is_empty() {
                        self.wake_one(&state);
                    }
                    return Some(Work::Run(batch));
                }
                Next::Idle if !state.has_callers => return None,
                Next::Idle if looks < YIELDS => {
                    looks += 1;
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
        at_most: Option<std::time::Duration>,
    ) -> MutexGuard<'a, State> {
        state.sleeping += 1;
        let mut state = match at_most {
            None => self
                .come
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let woken = self.come.wait_timeout(state, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.sleeping -= 1;
        state
    }

    /// Waking somebody is a call to the kernel, so nobody is woken who does not sleep.
    fn wake_one(&self, state: &State) {
        if state.sleeping > 0 {
            self.come.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers -= 1;
        if state.workers == 0 {
            // Dropping a call tells its caller.
            state.batcher = Batcher::new();
            state.unweighed.clear();
        }
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.0.lock().has_callers = false;
        self.0.come.notify_all();
    }
}
