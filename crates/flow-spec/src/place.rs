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
    /// Replicas of each node, by its [`NodeIdx`].
    pub addresses: Vec<Vec<Address>>,
}

impl Placement {
    /// Places a plan: external nodes where the file says, the others where `local` says.
    pub fn new(plan: Plan, mut local: impl FnMut(NodeIdx) -> Vec<Address>) -> Self {
        let place = |(at, node): (NodeIdx, &crate::NodePlan)| match &node.run {
            Run::External { addresses } => addresses.clone(),
            Run::Local(_) => local(at),
        };
        let addresses = plan.nodes().map(place).collect();
        Self { plan, addresses }
    }

    /// Where a node's replicas listen.
    #[must_use]
    pub fn addresses(&self, node: NodeIdx) -> &[Address] {
        &self.addresses[node.index()]
    }
}
