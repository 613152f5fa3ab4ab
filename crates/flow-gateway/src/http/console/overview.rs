//! The current state of the flow: rates, latencies, errors, and the state of each replica.

use std::time::SystemTime;

use flow_net::{Pool, Replica};
use flow_spec::NodePlan;
use serde::Serialize;

use crate::backend::Backend;
use crate::console::{History, Recent, seconds};
use crate::node::GatewayNode;
use crate::snapshot::Snapshot;

/// How the flow does now.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    name: Option<String>,
    version: &'static str,
    now_s: f64,
    started_s: f64,
    in_progress: usize,
    in_progress_max: usize,
    recent: Recent,
    /// In the order of the plan.
    nodes: Vec<NodeReport>,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    name: String,
    /// Whether each of its parts was ready at some time.
    was_ready: bool,
    recent: Recent,
    shards: Vec<Vec<ReplicaReport>>,
    before: Option<Vec<ReplicaReport>>,
    after: Option<Vec<ReplicaReport>>,
}

#[derive(Debug, Serialize)]
struct ReplicaReport {
    address: String,
    state: ReplicaState,
    in_progress: usize,
}

/// What the gateway knows of a replica from its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ReplicaState {
    /// It has answered on the present connection.
    Ready,
    /// Nothing was heard of it yet.
    NotCalled,
    /// The last call did not reach it.
    Unreachable,
}

impl Overview {
    pub(super) fn of(history: &History, snapshot: &Snapshot, now: SystemTime) -> Self {
        let nodes = snapshot.nodes();
        Self {
            name: snapshot.plan.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            now_s: seconds(now),
            started_s: seconds(history.started()),
            in_progress: snapshot.limit.in_flight(),
            in_progress_max: snapshot.limit.max().get(),
            recent: history.recent(now),
            nodes: nodes
                .map(|(plan, node)| NodeReport::of(plan, node, history, now))
                .collect(),
        }
    }
}

impl NodeReport {
    fn of(plan: &NodePlan, node: &GatewayNode, history: &History, now: SystemTime) -> Self {
        let name = plan.name.as_str();
        Self {
            name: name.to_owned(),
            was_ready: node.was_ready(),
            recent: history.recent_of(name, now),
            shards: node.shards.iter().map(replicas).collect(),
            before: node.before.as_ref().map(replicas),
            after: node.after.as_ref().map(replicas),
        }
    }
}

fn replicas(backend: &Backend) -> Vec<ReplicaReport> {
    let replicas = backend.pool().map(Pool::replicas).unwrap_or_default();
    replicas.iter().map(|it| ReplicaReport::of(it)).collect()
}

impl ReplicaReport {
    fn of(replica: &Replica) -> Self {
        let state = match (replica.is_ejected(), replica.peer_spoke()) {
            (true, _) => ReplicaState::Unreachable,
            (false, true) => ReplicaState::Ready,
            (false, false) => ReplicaState::NotCalled,
        };
        let address = replica.uri();
        Self {
            address: address
                .split_once("://")
                .map_or(address, |it| it.1)
                .to_owned(),
            state,
            in_progress: replica.in_flight(),
        }
    }
}
