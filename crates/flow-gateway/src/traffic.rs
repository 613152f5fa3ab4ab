//! What the gateway counted of its requests and calls, and what is in progress in it, for `flow top`.

use std::sync::Arc;

use flow_net::{Pool, Replica};
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::snapshot::Snapshot;
use crate::snapshot_store::SnapshotStore;

/// What a gateway counted since it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The requests of clients that ended.
    pub requests: Counts,
    /// Requests that have a permit.
    pub in_progress: usize,
    /// How many may have one.
    pub in_progress_max: usize,
    /// Requests that wait for a permit.
    pub waiting: usize,
    /// All replicas, in the order of the plan.
    pub replicas: Vec<ReplicaTraffic>,
}

/// What a gateway counted of a replica.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaTraffic {
    /// The node that it works for.
    pub node: String,
    /// Its address, such as `127.0.0.1:54400`.
    pub address: String,
    /// The calls of it that ended.
    pub calls: Counts,
    /// Calls in progress: those that wait in it, and those that it works on.
    pub in_progress: usize,
    /// Whether it could not be reached when it was last tried.
    pub is_ejected: bool,
}

/// Says what a running gateway counted.
#[derive(Debug, Clone)]
pub struct TrafficReader(pub(crate) Arc<SnapshotStore>);

impl TrafficReader {
    /// What the gateway counted up to now.
    #[must_use]
    pub fn read(&self) -> Traffic {
        Traffic::of(&self.0.newest())
    }
}

impl Traffic {
    fn of(snapshot: &Snapshot) -> Self {
        let replicas = snapshot.nodes().flat_map(|(plan, node)| {
            let replicas = node.pools().flat_map(Pool::replicas);
            replicas.map(move |it| ReplicaTraffic::of(plan.name.as_str(), &it))
        });
        Self {
            requests: snapshot.shared.log.counts().read(),
            in_progress: snapshot.limit.in_flight(),
            in_progress_max: snapshot.limit.max().get(),
            waiting: snapshot.limit.waiting(),
            replicas: replicas.collect(),
        }
    }
}

impl ReplicaTraffic {
    fn of(node: &str, replica: &Replica) -> Self {
        let address = replica.uri();
        let address = address.split_once("://").map_or(address, |it| it.1);
        Self {
            node: node.to_owned(),
            address: address.to_owned(),
            calls: Counts::of(replica.calls()),
            in_progress: replica.in_flight(),
            is_ejected: replica.is_ejected(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counts::RequestCounts;

    #[test]
    fn counts_survive_a_round_trip_through_another_program() {
        let counts = RequestCounts::default();
        counts.add(Duration::from_millis(3), false);
        counts.add(Duration::from_secs(3), true);
        let traffic = Traffic {
            requests: counts.read(),
            in_progress: 1,
            replicas: vec![ReplicaTraffic::default()],
            ..Traffic::default()
        };
        assert_eq!(traffic.requests.durations.values().sum::<u64>(), 2);
        let text = serde_json::to_string(&traffic).unwrap();
        assert_eq!(serde_json::from_str::<Traffic>(&text).unwrap(), traffic);
    }
}
