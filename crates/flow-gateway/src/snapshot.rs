//! The immutable state that all requests of one placement share.
//!
//! While a gateway runs, other placements may follow; see `snapshot_store.rs`. A request keeps the snapshot that it
//! began with, and so the replicas of that placement, until it ends.

use std::sync::Arc;
use std::time::Duration;

use flow_core::{Failure, NodeName, Origin};
use flow_proto::jina::HeaderProto;
use flow_spec::{NodeIdx, NodePlan, Placement, Plan};
use prost::Message;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::limit::ConcurrencyLimit;
use crate::metrics::{Arrival, RefusalReason, RequestTimer};
use crate::node::GatewayNode;
use crate::pools::{KnownReplicas, PlacementError, PlacementIndependent};
use crate::request_record::RequestRecord;

/// Requests that may have floating nodes in progress. No request waits for these nodes, so nothing else would slow a
/// client that is faster than they are.
const FLOATING_MAX: usize = 1024;

/// The plan, and where its nodes are.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) plan: Plan,
    /// By [`NodeIdx`].
    nodes: Vec<GatewayNode>,
    pub(crate) floating: Arc<FloatingRequests>,
    /// The result of some node is dropped: requests outlive their replies.
    pub(crate) has_floating: bool,
    /// Some node gets only some of the documents.
    pub(crate) has_conditions: bool,
    pub(crate) limit: ConcurrencyLimit,
    pub(crate) shared: PlacementIndependent,
    /// Cancelled when the last request of this snapshot has ended.
    _ended: DropGuard,
}

/// Requests that have been answered and whose floating nodes still run.
#[derive(Debug)]
pub(crate) struct FloatingRequests {
    pub(crate) tasks: TaskTracker,
    pub(crate) permits: Arc<Semaphore>,
}

impl Snapshot {
    /// A snapshot of this placement. Replicas of `before` keep their connections, and `ended` is cancelled when
    /// the last request of the snapshot has ended.
    pub(crate) fn new(
        placement: Placement,
        shared: PlacementIndependent,
        before: Option<&Self>,
        ended: CancellationToken,
    ) -> Result<Self, PlacementError> {
        let known = KnownReplicas::of(before.into_iter().flat_map(|it| &it.nodes));
        let mut nodes = Vec::new();
        for (at, plan) in placement.plan.nodes() {
            let node = known.node(plan, placement.addresses(at), &shared)?;
            if before.is_some_and(|before| before.was_ready(&plan.name)) {
                node.set_ready();
            }
            nodes.push(node);
        }
        let mut snapshot = Self::with_nodes(placement.plan, nodes, shared, ended);
        if let Some(before) = before {
            snapshot.floating = before.floating.clone();
            if before.limit.max() == snapshot.limit.max() {
                snapshot.limit = before.limit.clone();
            }
        }
        Ok(snapshot)
    }

    /// A snapshot of this plan with these nodes.
    pub(crate) fn with_nodes(
        plan: Plan,
        nodes: Vec<GatewayNode>,
        shared: PlacementIndependent,
        ended: CancellationToken,
    ) -> Self {
        Self {
            nodes,
            floating: FloatingRequests::new(),
            has_floating: plan.nodes.iter().any(|node| !node.awaited),
            has_conditions: plan.nodes.iter().any(|node| node.calls.when.is_some()),
            limit: ConcurrencyLimit::new(plan.gateway.in_flight_max),
            plan,
            shared,
            _ended: ended.drop_guard(),
        }
    }

    fn was_ready(&self, name: &NodeName) -> bool {
        self.nodes()
            .any(|(plan, node)| plan.name == *name && node.was_ready())
    }

    /// Begins to measure a request that waited so long to be admitted, or that is refused (`None`), if the gateway is
    /// monitored.
    pub(crate) fn measure(
        &self,
        request: &impl Message,
        header: Option<&HeaderProto>,
        (origin, waited): (&Origin, Option<Duration>),
    ) -> Option<RequestTimer> {
        let metrics = self.shared.metrics.as_ref()?;
        let endpoint = header.and_then(|header| header.exec_endpoint.as_deref());
        let arrival = Arrival {
            origin,
            endpoint: endpoint.unwrap_or_default(),
            waited,
        };
        let names = |endpoint: &str| self.nodes.iter().any(|node| node.endpoints.names(endpoint));
        Some(metrics.begin(request, arrival, names))
    }

    /// Counts a request that the gateway refuses after it waited so long, if it waited.
    pub(crate) fn count_refusal(
        &self,
        request: &impl Message,
        header: Option<&HeaderProto>,
        arrival: (&Origin, Option<Duration>),
        reason: RefusalReason,
    ) {
        if let Some(metrics) = &self.shared.metrics {
            metrics.refuse(reason);
        }
        if let Some(mut timer) = self.measure(request, header, arrival) {
            timer.ends_with(Some(reason.code()));
        }
    }

    /// Logs a request that failed without a reply.
    pub(crate) fn log_failure(
        &self,
        record: &RequestRecord,
        header: Option<&HeaderProto>,
        failure: &Failure,
    ) {
        let logging = self.plan.gateway.logging;
        self.shared.log.call(record, header, failure, logging);
    }

    pub(crate) fn node(&self, node: NodeIdx) -> &GatewayNode {
        &self.nodes[node.index()]
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&NodePlan, &GatewayNode)> {
        self.plan.nodes.iter().zip(&self.nodes)
    }
}

impl FloatingRequests {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            tasks: TaskTracker::new(),
            permits: Arc::new(Semaphore::new(FLOATING_MAX)),
        })
    }
}
