//! Decides which requests share one call of the executor, and when they leave.
//!
//! This module only decides. It holds no lock, starts no task and reads no clock: the present is an
//! argument, so each rule is tested with times made by hand. `worker.rs` owns the one [`Batcher`] and
//! turns its decisions into calls.
//!
//! The rules:
//! - Nothing waits unless it was asked for: a batch is what gathered while the executor was busy. It
//!   leaves when the executor is free, or, with `wait_max`, when it is full or its oldest request has
//!   waited that long.
//! - The oldest request always leaves first, and takes with it those behind it that are alike, in their
//!   order, up to the first that does not fit.
//! - A request is never split: one larger than a batch is a batch of its own.
//! - A request whose caller has gone is dropped here, before it costs a call.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// How documents of several requests share a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Most documents in one call, unless a single request brings more.
    pub docs_max: NonZeroUsize,
    /// How long the first request may wait for company. Zero is best unless a call costs much more than
    /// its documents do: while the executor works, the next batch gathers by itself.
    pub wait_max: Duration,
}

impl Default for Batching {
    fn default() -> Self {
        // Large enough to fill any device with short texts, small enough that one call stays well under
        // a second on a CPU.
        let docs_max = NonZeroUsize::new(256).expect("256 is not zero");
        Self {
            docs_max,
            wait_max: Duration::ZERO,
        }
    }
}

/// What the batcher needs to know of a request.
pub(crate) trait Waiting {
    /// Documents it brings.
    fn docs(&self) -> usize;
    /// When it came.
    fn arrived(&self) -> Instant;
    /// Whether both may be in one call.
    fn is_like(&self, other: &Self) -> bool;
    /// Whether nobody waits for it any more at `now`.
    fn is_abandoned(&self, now: Instant) -> bool;
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<R> {
    /// Call the executor with these.
    Call(Vec<R>),
    /// Ask again then, or when something has come.
    WaitUntil(Instant),
    /// Nothing is waiting.
    Idle,
}

/// Requests that wait for the executor, in the order they came.
#[derive(Debug)]
pub(crate) struct Batcher<R> {
    waiting: VecDeque<R>,
    batching: Batching,
}

impl<R: Waiting> Batcher<R> {
    pub(crate) fn new(batching: Batching) -> Self {
        Self {
            waiting: VecDeque::new(),
            batching,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn push(&mut self, request: R) {
        self.waiting.push_back(request);
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next<R> {
        self.waiting.retain(|request| !request.is_abandoned(now));
        let Some(oldest) = self.waiting.front() else {
            return Next::Idle;
        };
        let leaves = oldest.arrived() + self.batching.wait_max;
        let (members, full) = self.members();
        if now < leaves && !full {
            return Next::WaitUntil(leaves);
        }
        Next::Call(self.take(&members))
    }

    /// Places of the requests in the next batch, and whether it is full.
    fn members(&self) -> (Vec<usize>, bool) {
        let docs_max = self.batching.docs_max.get();
        let mut members = Vec::new();
        let mut docs = 0;
        let alike = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, r)| r.is_like(&self.waiting[0]));
        for (place, request) in alike {
            if !members.is_empty() && docs + request.docs() > docs_max {
                return (members, true);
            }
            docs += request.docs();
            members.push(place);
        }
        (members, docs >= docs_max)
    }

    fn take(&mut self, members: &[usize]) -> Vec<R> {
        if members.len() == self.waiting.len() {
            return self.waiting.drain(..).collect();
        }
        let mut batch = Vec::with_capacity(members.len());
        for (taken, place) in members.iter().enumerate() {
            // Each removal moves those behind it one place forward.
            batch.extend(self.waiting.remove(place - taken));
        }
        batch
    }
}

#[cfg(test)]
mod tests;
