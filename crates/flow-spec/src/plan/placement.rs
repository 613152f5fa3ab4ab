//! A plan with the addresses of all replicas: all that a gateway needs to start.

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::{NodeIdx, NodePlan, Plan};
use crate::flow::Run;

/// A plan with addresses. The launcher hands it to the gateway process as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The plan.
    pub plan: Plan,
    /// The addresses of each node, by its [`NodeIdx`].
    pub addresses: Vec<NodeAddresses>,
}

/// The addresses of a node's processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddresses {
    /// Replicas of each shard; never empty. A node without shards has one.
    pub shards: Vec<Vec<Address>>,
    /// The executor that runs before the shards.
    pub before: Option<Address>,
    /// The executor that runs after them.
    pub after: Option<Address>,
}

impl NodeAddresses {
    /// A node without shards.
    #[must_use]
    pub fn replicas(addresses: Vec<Address>) -> Self {
        Self {
            shards: vec![addresses],
            before: None,
            after: None,
        }
    }

    /// Every address, the shards' first.
    pub fn all(&self) -> impl Iterator<Item = &Address> {
        let around = self.before.iter().chain(&self.after);
        self.shards.iter().flatten().chain(around)
    }
}

impl Placement {
    /// Adds addresses to a plan: those of the file for external nodes, and those of `local` for the others.
    pub fn new(plan: Plan, mut local: impl FnMut(NodeIdx) -> NodeAddresses) -> Self {
        let addresses = |(at, node): (NodeIdx, &NodePlan)| match &node.run {
            Run::External { addresses } => NodeAddresses::replicas(addresses.clone()),
            Run::Local(_) => local(at),
        };
        let addresses = plan.nodes().map(addresses).collect();
        Self { plan, addresses }
    }

    /// The addresses of a node.
    #[must_use]
    pub fn addresses(&self, node: NodeIdx) -> &NodeAddresses {
        &self.addresses[node.index()]
    }
}
