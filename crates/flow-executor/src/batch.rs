//! Decides which requests share one call of the executor, and when they leave.
//!
//! This module only decides. It holds no lock, starts no task and reads no clock: the present is an
//! argument, so each rule is tested with times made by hand. `queue.rs` owns the one [`Batcher`], and the
//! workers turn its decisions into calls.
//!
//! The rules:
//! - Nothing waits unless it was asked for: a batch is what gathered while the executor was busy. It
//!   leaves when a worker is free, or, with `wait_max`, when it is full or its oldest request has waited
//!   that long.
//! - Only requests that are alike share a call. They wait in a group that is gone when it is empty, so
//!   ever new parameters leave nothing behind.
//! - The oldest request that may leave goes first, and takes with it those behind it in its group, in
//!   their order, as far as its [`Fit`] allows.
//! - With [`Fit::Exact`], once a batch is full or its time has come, all that had gathered leaves, in
//!   pieces; the last piece takes newcomers along rather than wait for them.
//! - Interactive requests overtake bulk ones, but after [`BULK_TURN`] calls that did so, one bulk call has
//!   its turn.
//! - A request whose caller has gone is dropped here, before it costs a call.

mod rule;

use std::collections::VecDeque;
use std::time::Instant;

pub(crate) use rule::Rule;
pub use rule::{Batching, Fit, Metric};

/// Interactive calls in a row that may overtake a bulk one. Bulk work gets at least a ninth of the
/// executor then, and an interactive request rarely meets it.
pub(crate) const BULK_TURN: u32 = 8;

/// Which queue a request stands in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Somebody waits for the reply.
    #[default]
    Interactive,
    /// It may take its time.
    Bulk,
}

/// What the batcher needs to know of a request.
pub(crate) trait Waiting: Sized {
    /// Documents it brings.
    fn docs(&self) -> usize;
    /// What its document at `place` weighs, in its rule's metric.
    fn weight(&self, place: usize) -> usize;
    /// When it came.
    fn arrived(&self) -> Instant;
    /// Which queue it stands in.
    fn lane(&self) -> Lane;
    /// How it shares calls.
    fn rule(&self) -> Rule;
    /// Whether both may be in one call.
    fn is_like(&self, other: &Self) -> bool;
    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
    /// Gives its first documents away, as a request of their own.
    fn cut(&mut self, docs: usize) -> Self;

    /// What all its documents weigh.
    fn size(&self) -> usize {
        match self.rule().metric() {
            Metric::Documents => self.docs(),
            Metric::Bytes | Metric::Custom => (0..self.docs()).map(|doc| self.weight(doc)).sum(),
        }
    }
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

/// Requests that wait for the executor.
#[derive(Debug)]
pub(crate) struct Batcher<R> {
    groups: Vec<Group<R>>,
    /// Interactive calls since the last bulk one that went although bulk requests could have.
    overtaken: u32,
}

/// Requests that may share a call, in the order they came; never empty.
#[derive(Debug)]
struct Group<R> {
    rule: Rule,
    lane: Lane,
    waiting: VecDeque<R>,
    size: usize,
    /// So many from the front wait no longer, whatever the clock says.
    leaving: usize,
}

impl<R: Waiting> Batcher<R> {
    pub(crate) fn new() -> Self {
        Self {
            groups: Vec::new(),
            overtaken: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) fn push(&mut self, request: R) {
        match self.groups.iter_mut().find(|group| group.takes(&request)) {
            Some(group) => group.push(request),
            None => self.groups.push(Group::of(request)),
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next<R> {
        while let Some(place) = self.first_to_leave(now) {
            let group = &mut self.groups[place];
            group.forget_abandoned();
            let lane = group.lane;
            let batch = group.leaves(now).then(|| group.take());
            if group.waiting.is_empty() {
                self.groups.swap_remove(place);
            }
            if let Some(batch) = batch {
                self.count_turn(lane, now);
                return Next::Call(batch);
            }
        }
        let wake = self.groups.iter().map(Group::deadline).min();
        wake.map_or(Next::Idle, Next::WaitUntil)
    }

    /// The group whose turn it is, of those that may leave.
    fn first_to_leave(&self, now: Instant) -> Option<usize> {
        let oldest = |lane| {
            let groups = self.groups.iter().enumerate();
            let may_leave = groups.filter(|(_, group)| group.lane == lane && group.leaves(now));
            may_leave.min_by_key(|(_, group)| group.arrived())
        };
        let (interactive, bulk) = (oldest(Lane::Interactive), oldest(Lane::Bulk));
        let chosen = match bulk {
            Some(_) if self.overtaken >= BULK_TURN => bulk,
            _ => interactive.or(bulk),
        };
        chosen.map(|(place, _)| place)
    }

    fn count_turn(&mut self, lane: Lane, now: Instant) {
        let bulk_waits = |group: &Group<R>| group.lane == Lane::Bulk && group.leaves(now);
        self.overtaken = match lane {
            Lane::Interactive if self.groups.iter().any(bulk_waits) => self.overtaken + 1,
            Lane::Interactive => self.overtaken,
            Lane::Bulk => 0,
        };
    }
}

impl<R: Waiting> Group<R> {
    fn of(request: R) -> Self {
        Self {
            rule: request.rule(),
            lane: request.lane(),
            size: request.size(),
            waiting: VecDeque::from([request]),
            leaving: 0,
        }
    }

    /// Requests that share no calls need not be alike: they only stand in line.
    fn takes(&self, request: &R) -> bool {
        self.lane == request.lane()
            && self.rule == request.rule()
            && (self.rule == Rule::Alone || self.waiting[0].is_like(request))
    }

    fn push(&mut self, request: R) {
        self.size += request.size();
        self.waiting.push_back(request);
    }

    fn arrived(&self) -> Instant {
        self.waiting[0].arrived()
    }

    /// When its oldest request has waited long enough.
    fn deadline(&self) -> Instant {
        match self.rule {
            Rule::Alone => self.arrived(),
            Rule::Together(batching) => self.arrived() + batching.wait_max,
        }
    }

    fn leaves(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && (self.leaving > 0 || self.deadline() <= now || self.is_full())
    }

    /// Whether waiting would not make the next batch any larger.
    fn is_full(&self) -> bool {
        match self.rule {
            Rule::Alone => true,
            Rule::Together(batching) => self.size >= batching.size.get(),
        }
    }

    fn forget_abandoned(&mut self) {
        if self.rule == Rule::Alone {
            // Each call looks at the next one only, however long the line is.
            while self.waiting.front().is_some_and(R::is_abandoned) {
                drop(self.pop());
            }
            return;
        }
        let (mut place, leaving, mut left) = (0, self.leaving, self.leaving);
        self.waiting.retain(|request| {
            let stays = !request.is_abandoned();
            if place < leaving && !stays {
                left -= 1;
            }
            place += 1;
            stays
        });
        self.leaving = left;
        self.size = self.waiting.iter().map(R::size).sum();
    }

    /// The next batch. At least one request waits.
    fn take(&mut self) -> Vec<R> {
        match self.rule {
            Rule::Alone => self.pop().into_iter().collect(),
            Rule::Together(batching) => {
                let size = batching.size.get();
                match batching.fit {
                    Fit::Requests => self.take_requests(size),
                    Fit::Exact => self.take_exactly(size),
                    Fit::All => std::iter::from_fn(|| self.pop()).collect(),
                }
            }
        }
    }

    fn take_requests(&mut self, size: usize) -> Vec<R> {
        let mut batch = Vec::with_capacity(self.waiting.len());
        let mut taken = 0;
        while let Some(next) = self.waiting.front() {
            let with_next = taken + next.size();
            if !batch.is_empty() && with_next > size {
                break;
            }
            taken = with_next;
            batch.extend(self.pop());
        }
        batch
    }

    fn take_exactly(&mut self, size: usize) -> Vec<R> {
        if self.leaving == 0 {
            self.leaving = self.waiting.len();
        }
        let mut batch = Vec::new();
        let mut missing = size;
        while missing > 0
            && let Some(next) = self.waiting.front_mut()
        {
            let (docs, weight) = first_docs(next, missing);
            if docs < next.docs() {
                batch.push(next.cut(docs));
                self.size -= weight;
            } else {
                batch.extend(self.pop());
            }
            missing = missing.saturating_sub(weight);
        }
        batch
    }

    fn pop(&mut self) -> Option<R> {
        let request = self.waiting.pop_front()?;
        self.size -= request.size();
        self.leaving = self.leaving.saturating_sub(1);
        Some(request)
    }
}

/// How many of a request's documents it takes to reach `missing`, and what they weigh.
fn first_docs<R: Waiting>(request: &R, missing: usize) -> (usize, usize) {
    if request.rule().metric() == Metric::Documents {
        let docs = request.docs().min(missing);
        return (docs, docs);
    }
    let mut weight = 0;
    for doc in 0..request.docs() {
        weight += request.weight(doc);
        if weight >= missing {
            return (doc + 1, weight);
        }
    }
    (request.docs(), weight)
}

#[cfg(test)]
mod tests;
