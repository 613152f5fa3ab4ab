//! A plan with the addresses of all replicas: all that a gateway needs to start.

use flow_core::{NodeName, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::Address;
use super::{NodeIdx, NodePlan, Plan};
use crate::flow::{LocalRun, Run};
use crate::values::Env;

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

    /// A node in the process of the gateway.
    #[must_use]
    pub fn colocated(node: &NodeName) -> Self {
        let colocated = node.clone();
        Self::replicas(vec![Address::Colocated { colocated }])
    }

    /// Whether the node runs in the process of the gateway.
    #[must_use]
    pub fn is_colocated(&self) -> bool {
        self.all().any(|it| matches!(it, Address::Colocated { .. }))
    }

    /// Every address, the shards' first.
    pub fn all(&self) -> impl Iterator<Item = &Address> {
        let around = self.before.iter().chain(&self.after);
        self.shards.iter().flatten().chain(around)
    }
}

/// The environment of a gateway lacks a variable that its placement names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the variable `{variable}`, with the metadata `{key}` for calls of `{node}`, is not set: set it in the environment of the gateway"
)]
pub struct UnsetVariable {
    variable: String,
    key: String,
    node: NodeName,
}

const REFERENCE_START: &str = "${{ ENV.";
const REFERENCE_END: &str = " }}";

/// What stands in a placement for a secret of gRPC metadata that is in a variable of the gateway's environment. A flow file uses
/// the same words, and a placement that is made from one has the value in their place.
#[must_use]
pub fn metadata_reference(variable: &str) -> String {
    format!("{REFERENCE_START}{variable}{REFERENCE_END}")
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

    /// The placement for the gateway, which does not need to know the variables of executors, and the values of options only of
    /// those that it runs itself.
    #[must_use]
    pub fn for_gateway(&self) -> Self {
        let mut placement = self.clone();
        for (node, addresses) in placement.plan.nodes.iter_mut().zip(&self.addresses) {
            if let Run::Local(run) = &mut node.run {
                run.env = Env::new();
                if !addresses.is_colocated() {
                    hide_values(run);
                }
            }
        }
        placement
    }

    /// The executors that run in the process of the gateway. Their options remain as names without values.
    pub fn take_colocated(&mut self) -> Vec<(NodeName, LocalRun)> {
        let mut taken = Vec::new();
        for (node, addresses) in self.plan.nodes.iter_mut().zip(&self.addresses) {
            if let (Run::Local(run), true) = (&mut node.run, addresses.is_colocated()) {
                taken.push((node.name.clone(), (**run).clone()));
                hide_values(run);
            }
        }
        taken
    }

    /// Replaces what [`metadata_reference`] made by the values of the variables.
    ///
    /// # Errors
    ///
    /// If a variable is not set.
    pub fn resolve_metadata(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), UnsetVariable> {
        for node in &mut self.plan.nodes {
            let mut entries = std::mem::take(&mut node.calls.metadata).into_revealed();
            for (key, value) in &mut entries {
                let name = value.strip_prefix(REFERENCE_START);
                let Some(name) = name.and_then(|it| it.strip_suffix(REFERENCE_END)) else {
                    continue;
                };
                *value = variable(name).ok_or_else(|| UnsetVariable {
                    variable: name.to_owned(),
                    key: key.clone(),
                    node: node.name.clone(),
                })?;
            }
            node.calls.metadata = Secret::new(entries);
        }
        Ok(())
    }

    /// The addresses of a node.
    #[must_use]
    pub fn addresses(&self, node: NodeIdx) -> &NodeAddresses {
        &self.addresses[node.index()]
    }
}

/// Leaves the names of options, without their values.
fn hide_values(run: &mut LocalRun) {
    let keys = run.with.reveal().keys().cloned();
    run.with = Secret::new(keys.map(|key| (key, Value::Null)).collect());
}
