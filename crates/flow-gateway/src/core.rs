//! What every request of a gateway shares, and none of them changes.

use std::sync::Arc;

use flow_net::retry::Policy;
use flow_net::{Limits, Metadata, Pool, Replica};
use flow_spec::{Calls, NodeIdx, NodePlan, Placement, Plan, Retries};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::gateway::BindError;

/// Requests that may be in floating nodes at a time. Nobody waits for these, so nothing else would hold
/// back a client that is faster than they are.
const FLOATING_MAX: usize = 1024;

/// The plan, and where its nodes are.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) plan: Plan,
    /// By [`NodeIdx`].
    pools: Vec<Pool>,
    /// Requests whose reply has gone out and whose floating nodes still run.
    pub(crate) floating: TaskTracker,
    pub(crate) floating_room: Arc<Semaphore>,
    /// Some node's result is dropped: requests outlive their replies.
    pub(crate) has_floating: bool,
}

impl Core {
    pub(crate) fn new(placement: Placement, limits: Limits) -> Result<Self, BindError> {
        let mut pools = Vec::new();
        for (at, node) in placement.plan.nodes() {
            pools.push(pool(&placement, (at, node), limits)?);
        }
        let has_floating = placement.plan.nodes.iter().any(|node| !node.awaited);
        Ok(Self {
            plan: placement.plan,
            pools,
            floating: TaskTracker::new(),
            floating_room: Arc::new(Semaphore::new(FLOATING_MAX)),
            has_floating,
        })
    }

    pub(crate) fn pool(&self, node: NodeIdx) -> &Pool {
        &self.pools[node.index()]
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (&NodePlan, &Pool)> {
        self.plan.nodes.iter().zip(&self.pools)
    }
}

fn pool(
    placement: &Placement,
    (at, node): (NodeIdx, &NodePlan),
    limits: Limits,
) -> Result<Pool, BindError> {
    let bad = |reason: String| BindError::Node {
        node: node.name.clone(),
        reason,
    };
    let replica = |address: &flow_spec::Address| {
        Replica::new(&address.to_string(), limits)
            .map(Arc::new)
            .map_err(|error| bad(error.to_string()))
    };
    let replicas = placement
        .places(at)
        .all()
        .map(replica)
        .collect::<Result<_, _>>()?;
    let metadata = metadata(&node.calls).map_err(bad)?;
    Ok(Pool::new(replicas, policy(&node.calls), metadata))
}

fn policy(calls: &Calls) -> Policy {
    let retries = match calls.retries {
        Retries::Default => None,
        Retries::Times(times) => Some(times),
    };
    Policy {
        retries,
        idempotent: calls.idempotent,
    }
}

fn metadata(calls: &Calls) -> Result<Metadata, String> {
    let entry = |(key, value): &(String, String)| match (key.parse(), value.parse()) {
        (Ok(key), Ok(value)) => Ok((key, value)),
        _ => Err(format!(
            "`{key}: {value}` is no gRPC metadata: ASCII only, keys in lower case"
        )),
    };
    calls.metadata.iter().map(entry).collect()
}
