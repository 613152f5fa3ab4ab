//! The queue of an executor under a simulated clock.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::queue::{Batcher, Next, PriorityClass, QueuedRequest};
use crate::sdk::{BatchRule, Batching};

/// Decides which requests share a call, with the code of a running executor whose methods are bound with
/// [`on_batch`](crate::Endpoints::on_batch). The time is an argument.
///
/// ```
/// # use std::num::NonZeroUsize;
/// # use std::time::Instant;
/// use flow_executor::testing::SimulatedQueue;
///
/// let now = Instant::now();
/// let mut queue = SimulatedQueue::new(NonZeroUsize::new(32).unwrap());
/// queue.push("first", 20, now);
/// queue.push("second", 10, now);
/// queue.push("third", 10, now);
/// assert_eq!(queue.next_call(now), ["first", "second"]);
/// assert_eq!(queue.next_call(now), ["third"]);
/// assert!(queue.next_call(now).is_empty());
/// ```
#[derive(Debug)]
pub struct SimulatedQueue<T> {
    batcher: Batcher<Waiting<T>>,
    batching: Batching,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting<T> {
    request: T,
    documents: usize,
    arrived: Instant,
    batching: Batching,
}

impl<T> SimulatedQueue<T> {
    /// An empty queue, whose calls have at most so many documents, unless one request has more.
    #[must_use]
    pub fn new(size: NonZeroUsize) -> Self {
        let batching = Batching {
            size,
            wait_max: Duration::ZERO,
            ..Batching::default()
        };
        Self {
            batcher: Batcher::new(),
            batching,
        }
    }

    /// Adds a request with so many documents.
    pub fn push(&mut self, request: T, documents: usize, now: Instant) {
        self.batcher.push(Waiting {
            request,
            documents,
            arrived: now,
            batching: self.batching,
        });
    }

    /// The requests of the next call; none if nothing waits.
    pub fn next_call(&mut self, now: Instant) -> Vec<T> {
        match self.batcher.next(now) {
            Next::Call(batch, _) => batch.into_iter().map(|it| it.request).collect(),
            Next::WaitUntil(_) | Next::Idle => Vec::new(),
        }
    }
}

impl<T> QueuedRequest for Waiting<T> {
    type BatchKey = ();

    fn docs(&self) -> usize {
        self.documents
    }

    fn weight(&self, _doc: usize) -> usize {
        1
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn class(&self) -> PriorityClass {
        PriorityClass::Interactive
    }

    fn rule(&self) -> BatchRule {
        BatchRule::Together(self.batching)
    }

    fn batch_key(&self) {}

    fn is_abandoned(&self) -> bool {
        false
    }

    fn split_off(&mut self, _docs: usize) -> Self {
        unreachable!("only `Fit::Exact` splits requests")
    }
}
