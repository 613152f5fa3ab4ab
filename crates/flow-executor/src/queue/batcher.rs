//! Decides which requests share one call of the executor, and when they leave the queue.
//!
//! Pure: no lock, no task and no clock. The current time is an argument, so tests choose it. `call_queue.rs` owns the
//! [`Batcher`], and workers run what it decides.
//!
//! The rules:
//! - Nothing waits unless the flow file or the author says so: a batch is what arrived while the executor was busy. It
//!   leaves when a worker is free. With `wait_max`, it leaves when it is full or its oldest request has waited that
//!   long.
//! - Only requests with the same method, parameters and document version share a call. They wait in a group, which is
//!   removed when it is empty, so new parameters in each request leave nothing behind.
//! - The oldest request that may leave goes first, with the requests behind it in its group, as far as [`Fit`] allows.
//! - With [`Fit::Exact`], once a batch is full or its time has come, everything in the group leaves in pieces. New
//!   requests fill up the last piece.
//! - Interactive requests overtake bulk requests. After [`BULK_TURN`] calls that did so, one bulk call runs.
//! - A request whose caller has gone is dropped.

use std::collections::VecDeque;
use std::time::Instant;

use crate::sdk::{BatchMetric, BatchRule, Fit};

/// Interactive calls in a row that may overtake a bulk one. Bulk requests get at least a ninth of the executor, and an
/// interactive request rarely waits for one.
pub(crate) const BULK_TURN: u32 = 8;

/// The priority of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PriorityClass {
    /// A user waits for the reply.
    #[default]
    Interactive,
    /// The reply may take long.
    Bulk,
}

/// A request, as the batcher sees it.
pub(crate) trait QueuedRequest: Sized {
    /// What requests must have in common to share a call. It is compared while the queue is locked, so it is small.
    type BatchKey: Copy + Eq + std::fmt::Debug;

    /// The number of its documents.
    fn docs(&self) -> usize;
    /// The weight of a document, in the metric of its rule.
    fn weight(&self, doc: usize) -> usize;
    /// When it arrived.
    fn arrived(&self) -> Instant;
    /// Its priority.
    fn class(&self) -> PriorityClass;
    /// How it shares calls.
    fn rule(&self) -> BatchRule;
    /// What it must have in common with others in its call.
    fn batch_key(&self) -> Self::BatchKey;
    /// Whether its caller has gone.
    fn is_abandoned(&self) -> bool;
    /// Takes its first documents, as a request of their own.
    fn split_off(&mut self, docs: usize) -> Self;

    /// The weight of all its documents.
    fn size(&self) -> usize {
        match self.rule().metric() {
            BatchMetric::Documents => self.docs(),
            BatchMetric::Bytes | BatchMetric::Custom => {
                (0..self.docs()).map(|doc| self.weight(doc)).sum()
            }
        }
    }
}

/// Why requests leave the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// They share no calls.
    Alone,
    /// As many wait as fit into a call, or more.
    Full,
    /// The oldest one has waited for as long as it may.
    Timeout,
    /// They do not wait for others, and a worker is free.
    Idle,
    /// They are a further piece of what has begun to leave.
    Rest,
}

impl LeaveReason {
    pub(crate) const ALL: [Self; 5] = [
        Self::Alone,
        Self::Full,
        Self::Timeout,
        Self::Idle,
        Self::Rest,
    ];

    /// The reason as metrics show it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Full => "full",
            Self::Timeout => "timeout",
            Self::Idle => "idle",
            Self::Rest => "rest",
        }
    }
}

/// What a worker does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<R> {
    /// Call the executor with these requests.
    Call(Vec<R>, LeaveReason),
    /// Wait until this time, or until a request arrives.
    WaitUntil(Instant),
    /// Nothing is waiting.
    Idle,
}

/// Requests that wait for the executor.
#[derive(Debug)]
pub(crate) struct Batcher<R: QueuedRequest> {
    groups: Vec<Group<R>>,
    /// Interactive calls since the last bulk one, while bulk requests could have left.
    overtaken: u32,
}

/// Requests that may share a call, in the order of their arrival; never empty.
#[derive(Debug)]
struct Group<R: QueuedRequest> {
    key: R::BatchKey,
    rule: BatchRule,
    class: PriorityClass,
    waiting: VecDeque<R>,
    size: usize,
    /// The number of requests at the front that leave without further waiting.
    leaving: usize,
}

impl<R: QueuedRequest> Batcher<R> {
    pub(crate) fn new() -> Self {
        Self {
            groups: Vec::new(),
            overtaken: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The requests that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &R> {
        self.groups.iter().flat_map(|group| &group.waiting)
    }

    pub(crate) fn push(&mut self, request: R) {
        match self.groups.iter_mut().find(|group| group.accepts(&request)) {
            Some(group) => group.push(request),
            None => self.groups.push(Group::of(request)),
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next<R> {
        while let Some(index) = self.next_group(now) {
            let group = &mut self.groups[index];
            group.drop_abandoned();
            let class = group.class;
            let batch = group.reason(now).map(|reason| (group.take(), reason));
            if group.waiting.is_empty() {
                self.groups.swap_remove(index);
            }
            if let Some((batch, reason)) = batch {
                self.count_turn(class, now);
                return Next::Call(batch, reason);
            }
        }
        let wake = self.groups.iter().map(Group::deadline).min();
        wake.map_or(Next::Idle, Next::WaitUntil)
    }

    /// The index of the group whose turn it is, of those that may leave.
    fn next_group(&self, now: Instant) -> Option<usize> {
        let oldest = |class| {
            let groups = self.groups.iter().enumerate();
            let may_leave = groups.filter(|(_, group)| group.class == class && group.leaves(now));
            may_leave.min_by_key(|(_, group)| group.arrived())
        };
        let (interactive, bulk) = (
            oldest(PriorityClass::Interactive),
            oldest(PriorityClass::Bulk),
        );
        let chosen = match bulk {
            Some(_) if self.overtaken >= BULK_TURN => bulk,
            _ => interactive.or(bulk),
        };
        chosen.map(|(index, _)| index)
    }

    fn count_turn(&mut self, class: PriorityClass, now: Instant) {
        let bulk_waits = |group: &Group<R>| group.class == PriorityClass::Bulk && group.leaves(now);
        self.overtaken = match class {
            PriorityClass::Interactive if self.groups.iter().any(bulk_waits) => self.overtaken + 1,
            PriorityClass::Interactive => self.overtaken,
            PriorityClass::Bulk => 0,
        };
    }
}

impl<R: QueuedRequest> Group<R> {
    fn of(request: R) -> Self {
        Self {
            key: request.batch_key(),
            rule: request.rule(),
            class: request.class(),
            size: request.size(),
            waiting: VecDeque::from([request]),
            leaving: 0,
        }
    }

    /// Whether a request belongs to this group. Requests that share no calls need not be alike: they only wait in order.
    fn accepts(&self, request: &R) -> bool {
        self.class == request.class()
            && self.rule == request.rule()
            && (self.rule == BatchRule::Alone || self.key == request.batch_key())
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
            BatchRule::Alone => self.arrived(),
            BatchRule::Together(batching) => self.arrived() + batching.wait_max,
        }
    }

    fn leaves(&self, now: Instant) -> bool {
        self.reason(now).is_some()
    }

    /// Why the next batch leaves; `None` if it waits.
    fn reason(&self, now: Instant) -> Option<LeaveReason> {
        match self.rule {
            _ if self.waiting.is_empty() => None,
            BatchRule::Alone => Some(LeaveReason::Alone),
            BatchRule::Together(_) if self.leaving > 0 => Some(LeaveReason::Rest),
            BatchRule::Together(_) if self.is_full() => Some(LeaveReason::Full),
            BatchRule::Together(batching) if self.deadline() <= now => {
                Some(match batching.wait_max.is_zero() {
                    true => LeaveReason::Idle,
                    false => LeaveReason::Timeout,
                })
            }
            BatchRule::Together(_) => None,
        }
    }

    /// Whether waiting would not make the next batch any larger.
    fn is_full(&self) -> bool {
        match self.rule {
            BatchRule::Alone => true,
            BatchRule::Together(batching) => self.size >= batching.size.get(),
        }
    }

    fn drop_abandoned(&mut self) {
        if self.rule == BatchRule::Alone {
            // Looks only at the front, however long the queue is.
            while self.waiting.front().is_some_and(R::is_abandoned) {
                drop(self.pop());
            }
            return;
        }
        let (mut index, leaving, mut left) = (0, self.leaving, self.leaving);
        self.waiting.retain(|request| {
            let stays = !request.is_abandoned();
            if index < leaving && !stays {
                left -= 1;
            }
            index += 1;
            stays
        });
        self.leaving = left;
        self.size = self.waiting.iter().map(R::size).sum();
    }

    /// The next batch. At least one request waits.
    fn take(&mut self) -> Vec<R> {
        match self.rule {
            BatchRule::Alone => self.pop().into_iter().collect(),
            BatchRule::Together(batching) => {
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
                batch.push(next.split_off(docs));
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
fn first_docs<R: QueuedRequest>(request: &R, missing: usize) -> (usize, usize) {
    if request.rule().metric() == BatchMetric::Documents {
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
