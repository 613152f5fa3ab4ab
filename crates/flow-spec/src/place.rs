//! A plan and where each of its replicas listens: all that a gateway needs to start.

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::plan::{NodeIdx, Plan};
use crate::settings::Run;

/// A plan with addresses. The launcher hands it to the gateway process as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// What to do.
    pub plan: Plan,
    /// Where each node is, by its [`NodeIdx`].
    pub places: Vec<Places>,
}

/// Where a node's processes listen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Replicas of each shard; never empty, and a node that is not cut has one shard.
    pub shards: Vec<Vec<Address>>,
    /// What is called before the shards.
    pub before: Option<Address>,
    /// What is called after them.
    pub after: Option<Address>,
}

impl Places {
    /// A node that is not cut into shards.
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
    /// Places a plan: external nodes where the file says, the others where `local` says.
    pub fn new(plan: Plan, mut local: impl FnMut(NodeIdx) -> Places) -> Self {
        let place = |(at, node): (NodeIdx, &crate::NodePlan)| match &node.run {
            Run::External { addresses } => Places::replicas(addresses.clone()),
            Run::Local(_) => local(at),
        };
        let places = plan.nodes().map(place).collect();
        Self { plan, places }
    }

    /// Where a node is.
    #[must_use]
    pub fn places(&self, node: NodeIdx) -> &Places {
        &self.places[node.index()]
    }
}
