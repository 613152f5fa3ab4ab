//! Metrics of each node.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use flow_core::TraceContext;
use flow_metrics::{Description, DurationHistogram, Metric, Registry, Stopwatch};
use flow_net::CallMetrics;

use super::runtime::RUNTIME;

/// The metrics of one node. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct NodeMetrics {
    duration: DurationHistogram,
    /// Those of its pools.
    pub(crate) calls: CallMetrics,
}

/// The metrics of all nodes, by name. They outlive a node that leaves the flow, because it may come back.
#[derive(Debug, Default)]
pub(super) struct AllNodes(Mutex<HashMap<Box<str>, NodeMetrics>>);

impl AllNodes {
    /// The metrics of a node; `calls` are those that all nodes share.
    pub(super) fn of(&self, name: &str, calls: &CallMetrics, registry: &Registry) -> NodeMetrics {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || NodeMetrics::register(name, calls, registry);
        all.entry(name.into()).or_insert_with(new).clone()
    }
}

impl NodeMetrics {
    fn register(name: &str, calls: &CallMetrics, registry: &Registry) -> Self {
        let node = Self {
            duration: DurationHistogram::default(),
            calls: calls.of_node(),
        };
        for (metric, help, value) in node.described() {
            let description = Description { name: metric, help };
            registry.register(
                description,
                &[("node", name), ("runtime_name", RUNTIME)],
                value,
            );
        }
        node
    }

    /// Measures one call of the node, with all its shards and tries.
    pub(crate) fn call(&self, trace: Option<&TraceContext>) -> Stopwatch {
        let trace = trace.and_then(TraceContext::recorded_id);
        self.duration.start().traced(trace)
    }

    fn described(&self) -> [(&'static str, &'static str, Metric); 5] {
        [
            (
                "flow_node_duration_seconds",
                "Time that requests spent at a node: with its queue, all its shards and all tries.",
                self.duration.clone().into(),
            ),
            (
                "flow_node_retries_total",
                "Calls of a node that failed and were tried again.",
                self.calls.retries.clone().into(),
            ),
            (
                "flow_node_hedges_total",
                "Requests of a node that were sent to a second replica while the first had not answered.",
                self.calls.hedges.clone().into(),
            ),
            (
                "flow_node_hedges_won_total",
                "Hedged requests of a node that the second replica answered first.",
                self.calls.hedges_won.clone().into(),
            ),
            (
                "flow_replica_ejections_total",
                "How often a replica of a node could not be reached and was avoided from then on.",
                self.calls.ejections.clone().into(),
            ),
        ]
    }
}
