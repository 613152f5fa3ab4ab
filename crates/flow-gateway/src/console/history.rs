//! What happened in the last hour: a series for the flow and one for each node, the last failures, and the slowest
//! requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::kept::KeptRequest;
use super::series::{SLOT, SLOTS, Series, SlotReport, slot_of};
use crate::request_record::{RequestEnd, RequestRecord};

pub(crate) use super::series::Recent;

/// Nodes with a series of their own. A flow may have more; the later ones have none.
const NODES_MAX: usize = 32;

/// Failures and slow requests that are kept, each. In a flood of failures, this many of each slot are considered, and the
/// others are only counted.
const KEPT_MAX: usize = 50;

/// The history of a gateway.
#[derive(Debug)]
pub(crate) struct History {
    started: SystemTime,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    flow: Series,
    nodes: Vec<(String, Series)>,
    /// The oldest first.
    failures: VecDeque<Arc<KeptRequest>>,
    /// Failures that were kept in the newest slot.
    kept_in_slot: usize,
    /// The slowest first.
    slow: Vec<Arc<KeptRequest>>,
}

/// Where a request is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Failure,
    Slow,
}

impl History {
    /// Bytes that a history takes at most.
    pub(crate) const BYTES_MAX: usize = size_of::<Self>()
        + (NODES_MAX + 1) * (Series::BYTES + size_of::<(String, Series)>())
        + 2 * KEPT_MAX * KeptRequest::BYTES_MAX;

    pub(crate) fn new(now: SystemTime) -> Self {
        Self {
            started: now,
            state: Mutex::new(State {
                flow: Series::new(slot_of(seconds(now))),
                nodes: Vec::new(),
                failures: VecDeque::new(),
                kept_in_slot: 0,
                slow: Vec::new(),
            }),
        }
    }

    /// Records a request that ended. Questions whether the flow is ready are left out.
    pub(crate) fn record(&self, record: &RequestRecord, end: &RequestEnd<'_>) {
        if end.is_dry_run() {
            return;
        }
        let ended = end.ended().unwrap_or_else(SystemTime::now);
        let took = record.waited + end.took();
        let keep = self.state().count(end, seconds(ended), took);
        if let Some(keep) = keep {
            // Its documents are counted, so not behind the lock.
            let kept = Arc::new(KeptRequest::new(record, end, ended, took));
            self.state().keep(keep, kept);
        }
    }

    /// Records nodes that worked on a request after its reply.
    pub(crate) fn record_floating(&self, end: &RequestEnd<'_>) {
        if !end.is_dry_run() {
            let slot = slot_of(seconds(SystemTime::now()));
            self.state().count_nodes(end, slot);
        }
    }

    /// When the gateway started.
    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    /// The last half minute of the flow.
    pub(crate) fn recent(&self, now: SystemTime) -> Recent {
        self.state().flow.recent(seconds(now), self.exists_s(now))
    }

    /// The last half minute of a node.
    pub(crate) fn recent_of(&self, node: &str, now: SystemTime) -> Recent {
        let state = self.state();
        let series = state.nodes.iter().find(|(name, _)| name == node);
        let recent = series.map(|(_, series)| series.recent(seconds(now), self.exists_s(now)));
        recent.unwrap_or_default()
    }

    /// The slots from number `first` on in which requests of the flow, or of a node, ended.
    pub(crate) fn since(&self, node: Option<&str>, first: u64, now: SystemTime) -> Vec<SlotReport> {
        let state = self.state();
        let now = slot_of(seconds(now));
        let series = match node {
            None => Some(&state.flow),
            Some(node) => {
                let mut nodes = state.nodes.iter();
                nodes.find(|(name, _)| name == node).map(|(_, it)| it)
            }
        };
        series.map_or_else(Vec::new, |series| series.since(first, now))
    }

    /// The last failures, the newest first, and the slowest requests of the last hour, the slowest first.
    pub(crate) fn kept(&self, now: SystemTime) -> (Vec<Arc<KeptRequest>>, Vec<Arc<KeptRequest>>) {
        let mut state = self.state();
        state.forget_slow(now);
        let failures = state.failures.iter().rev().cloned();
        (failures.collect(), state.slow.clone())
    }

    /// The length of a slot, and how many there are.
    pub(crate) fn resolution() -> (Duration, usize) {
        (SLOT, SLOTS)
    }

    fn exists_s(&self, now: SystemTime) -> f64 {
        let exists = now.duration_since(self.started);
        exists.unwrap_or_default().as_secs_f64()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a request; says whether and where it is to be kept.
    fn count(&mut self, end: &RequestEnd<'_>, ended_s: f64, took: Duration) -> Option<Keep> {
        let slot = slot_of(ended_s);
        if slot > self.flow.newest() {
            self.kept_in_slot = 0;
        }
        self.flow.add(slot, took, end.failed.is_some());
        self.count_nodes(end, slot);
        if end.failed.is_some() {
            self.kept_in_slot += 1;
            return (self.kept_in_slot <= KEPT_MAX).then_some(Keep::Failure);
        }
        self.is_slow(took).then_some(Keep::Slow)
    }

    fn count_nodes(&mut self, end: &RequestEnd<'_>, slot: u64) {
        for node in end.intervals() {
            if let Some(series) = self.node(node.name, slot) {
                series.add(slot, node.took, node.failed);
            }
        }
    }

    /// The series of a node; `None` if there are too many nodes. A node that was not called for an hour gives its place
    /// to another.
    fn node(&mut self, name: &str, slot: u64) -> Option<&mut Series> {
        let found = self.nodes.iter().position(|(known, _)| known == name);
        let place = match found {
            Some(place) => place,
            None if self.nodes.len() < NODES_MAX => {
                self.nodes.push((name.to_owned(), Series::new(slot)));
                self.nodes.len() - 1
            }
            None => {
                let is_old = |series: &Series| series.newest() + (SLOTS as u64) < slot;
                let place = self.nodes.iter().position(|(_, it)| is_old(it))?;
                self.nodes[place] = (name.to_owned(), Series::new(slot));
                place
            }
        };
        self.nodes.get_mut(place).map(|(_, series)| series)
    }

    fn is_slow(&self, took: Duration) -> bool {
        match self.slow.last() {
            Some(fastest) if self.slow.len() >= KEPT_MAX => took > fastest.took,
            _ => true,
        }
    }

    fn keep(&mut self, keep: Keep, request: Arc<KeptRequest>) {
        match keep {
            Keep::Failure => {
                if self.failures.len() >= KEPT_MAX {
                    self.failures.pop_front();
                }
                self.failures.push_back(request);
            }
            Keep::Slow => {
                self.forget_slow(request.ended);
                let place = self.slow.partition_point(|it| it.took >= request.took);
                self.slow.insert(place, request);
                self.slow.truncate(KEPT_MAX);
            }
        }
    }

    /// Forgets slow requests of more than an hour ago.
    fn forget_slow(&mut self, now: SystemTime) {
        let hour = SLOT * u32::try_from(SLOTS).unwrap_or(u32::MAX);
        let is_new = |it: &Arc<KeptRequest>| {
            let age = now.duration_since(it.ended);
            age.unwrap_or_default() < hour
        };
        self.slow.retain(is_new);
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
