//! A batcher whose batches are one call each.

use std::collections::VecDeque;
use std::time::Instant;

use super::call::Rule;

#[derive(Debug)]
pub(crate) struct Batcher<R>(VecDeque<R>);

/// Why a batch leaves.
#[derive(Debug)]
pub(crate) struct LeaveReason;

#[allow(dead_code, reason = "this batcher waits for nothing")]
pub(crate) enum Next<R> {
    Call(Vec<R>, LeaveReason),
    WaitUntil(Instant),
    Idle,
}

pub(crate) trait QueuedRequest {
    fn rule(&self) -> Rule;
}

impl<R> Batcher<R> {
    pub(crate) fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &R> {
        self.0.iter()
    }

    pub(crate) fn push(&mut self, request: R) {
        self.0.push_back(request);
    }

    pub(crate) fn next(&mut self, _now: Instant) -> Next<R> {
        match self.0.pop_front() {
            Some(request) => Next::Call(vec![request], LeaveReason),
            None => Next::Idle,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
