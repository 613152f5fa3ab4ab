//! What the gateway looks up when its metrics are read: requests in progress, memory, connections and replicas.

use std::sync::{Arc, Weak};

use flow_metrics::{Collected, Description, Gauge, Registry};
use flow_net::{ByteBudget, NameState, Pool};

use crate::metrics::RUNTIME;
use crate::node::GatewayNode;
use crate::snapshot::Snapshot;
use crate::snapshot_store::SnapshotStore;

/// The label of all metrics.
const OF_GATEWAY: (&str, &str) = ("runtime_name", RUNTIME);

/// What the values are looked up in.
#[derive(Debug)]
pub(crate) struct GatewayState {
    pub(crate) snapshots: Weak<SnapshotStore>,
    /// The memory of requests and replies; `None` without a limit.
    pub(crate) budget: Option<ByteBudget>,
    /// Open connections of clients.
    pub(crate) connections: Gauge,
}

impl GatewayState {
    /// Registers the values.
    pub(crate) fn register(self, registry: &Registry) {
        registry.collect(move |values| self.collect(values));
    }

    fn collect(&self, values: &mut Collected) {
        if let Some(snapshots) = self.snapshots.upgrade() {
            let snapshot = snapshots.newest();
            collect_limit(&snapshot, values);
            for (plan, node) in snapshot.nodes() {
                collect_replicas(plan.name.as_str(), node, values);
                collect_names(plan.name.as_str(), node, values);
            }
        }
        if let Some(budget) = &self.budget {
            let name = "flow_request_memory_bytes";
            let help = "Memory that requests and replies of clients take.";
            gauge(values, (name, help), budget.held());
            let name = "flow_request_memory_max_bytes";
            let help = "The limit on that memory: three quarters of `memory_max`.";
            gauge(values, (name, help), budget.max());
        }
        let name = "flow_connections";
        let help = "Open connections of clients.";
        let open = usize::try_from(self.connections.get()).unwrap_or(0);
        gauge(values, (name, help), open);
    }
}

fn collect_limit(snapshot: &Arc<Snapshot>, values: &mut Collected) {
    let name = "flow_requests_in_flight";
    let help = "Requests in progress that have a permit.";
    gauge(values, (name, help), snapshot.limit.in_flight());
    let name = "flow_requests_in_flight_max";
    let help = "Requests that may be in progress (`in_flight_max`).";
    gauge(values, (name, help), snapshot.limit.max().get());
}

/// How many replicas of a node can be reached, how many of them are slow or failing, and how many are avoided.
fn collect_replicas(node: &str, of: &GatewayNode, values: &mut Collected) {
    let replicas = of.pools().flat_map(Pool::replicas);
    let (ejected, ready): (Vec<_>, Vec<_>) = replicas.partition(|it| it.is_ejected());
    let (slow, ready): (Vec<_>, Vec<_>) = ready.into_iter().partition(|it| it.is_slow());
    let (failing, ready): (Vec<_>, Vec<_>) = ready.into_iter().partition(|it| it.is_failing());
    let states = [
        ("ready", ready),
        ("slow", slow),
        ("failing", failing),
        ("ejected", ejected),
    ];
    for (state, replicas) in states {
        let count = replicas.len();
        let description = Description {
            name: "flow_replicas",
            help: "Replicas of a node: ready, slow or failing compared with the others, or ejected because they could not be reached.",
        };
        let labels = [("node", node), ("state", state), OF_GATEWAY];
        values.gauge(description, &labels, float(count));
    }
}

/// How many names of a node have an answer, an old one, or none. Nodes without names have no such values.
fn collect_names(node: &str, of: &GatewayNode, values: &mut Collected) {
    let names: Vec<NameState> = of.pools().flat_map(Pool::name_states).collect();
    if names.is_empty() {
        return;
    }
    let states = [
        ("resolved", NameState::Resolved),
        ("stale", NameState::Stale),
        ("unknown", NameState::Unknown),
    ];
    for (state, of_state) in states {
        let count = names.iter().filter(|it| **it == of_state).count();
        let description = Description {
            name: "flow_names",
            help: "Names of a node's replicas: resolved, stale because the last lookup failed and the addresses before are used, or unknown because none has succeeded.",
        };
        let labels = [("node", node), ("state", state), OF_GATEWAY];
        values.gauge(description, &labels, float(count));
    }
}

fn gauge(values: &mut Collected, (name, help): (&str, &str), value: usize) {
    values.gauge(Description { name, help }, &[OF_GATEWAY], float(value));
}

#[allow(
    clippy::cast_precision_loss,
    reason = "Prometheus' own numbers are floats"
)]
fn float(value: usize) -> f64 {
    value as f64
}
