//! A node of the running flow: its replicas, and what its executor reports.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flow_core::TraceContext;
use flow_metrics::Stopwatch;
use flow_net::Pool;

use crate::backend::Backend;
use crate::known_endpoints::KnownEndpoints;
use crate::metrics::NodeMetrics;

/// A node of the running flow.
#[derive(Debug)]
pub(crate) struct GatewayNode {
    /// Never empty.
    pub(crate) shards: Vec<Backend>,
    /// `uses_before`.
    pub(crate) before: Option<Backend>,
    /// `uses_after`.
    pub(crate) after: Option<Backend>,
    pub(crate) endpoints: KnownEndpoints,
    /// Counts calls that go to one shard, which the shards take in turn.
    turn: AtomicUsize,
    was_ready: AtomicBool,
    /// `None` if the gateway is not monitored.
    metrics: Option<NodeMetrics>,
}

impl GatewayNode {
    pub(crate) fn new(
        shards: Vec<Backend>,
        before: Option<Backend>,
        after: Option<Backend>,
    ) -> Self {
        Self {
            shards,
            before,
            after,
            endpoints: KnownEndpoints::default(),
            turn: AtomicUsize::new(0),
            was_ready: AtomicBool::new(false),
            metrics: None,
        }
    }

    /// The same node, which measures its calls.
    pub(crate) fn with_metrics(self, metrics: Option<NodeMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Measures a call, if the gateway is monitored.
    pub(crate) fn measure(&self, trace: Option<&TraceContext>) -> Option<Stopwatch> {
        self.metrics.as_ref().map(|metrics| metrics.call(trace))
    }

    /// Whether the node was ready at some time, in this snapshot or in an earlier one.
    pub(crate) fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ready(&self) {
        self.was_ready.store(true, Ordering::Relaxed);
    }

    /// The shard whose turn it is.
    pub(crate) fn next_shard(&self) -> Option<&Backend> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.shards.get(turn % self.shards.len().max(1))
    }

    /// Every pool of the node, the shards' first.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Pool> {
        let around = self.before.iter().chain(&self.after);
        self.shards.iter().chain(around).filter_map(Backend::pool)
    }

    /// A different number each time that a replica was replaced, which may offer other endpoints.
    pub(crate) fn generation(&self) -> u64 {
        let pools = self.shards.iter().filter_map(Backend::pool);
        pools.map(Pool::generation).sum()
    }

    /// Whether the node is known not to offer this endpoint.
    pub(crate) fn lacks(&self, endpoint: &str) -> bool {
        self.endpoints.lacks(endpoint, || self.generation())
    }
}
