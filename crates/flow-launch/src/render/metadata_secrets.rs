//! Secrets in the gRPC metadata of external nodes: an export names variables of the gateway in their place. Pure.

use flow_core::{Secret, has_password, is_secret_name};
use flow_spec::{NodePlan, Plan, metadata_reference};

use crate::render::argument::variable;

/// What the name of each variable begins with that stands for a value of metadata.
const METADATA_PREFIX: &str = "GRPC_METADATA_";

/// The variables of the gateway for the secrets of all nodes.
pub(crate) fn variables(plan: &Plan) -> Vec<(String, Secret)> {
    let entries = plan.nodes.iter().flat_map(|node| {
        let entries = node.calls.metadata.reveal().iter();
        let secrets = entries.filter(|(key, value)| is_secret(key, value));
        secrets.map(|(key, value)| (name(node, key), Secret::new(value.clone())))
    });
    entries.collect()
}

/// Replaces the secrets of a node by references to these variables.
pub(crate) fn replace(node: &mut NodePlan) {
    let entries = node.calls.metadata.reveal().iter();
    let replaced = entries.map(|(key, value)| {
        let value = match is_secret(key, value) {
            true => metadata_reference(&name(node, key)),
            false => value.clone(),
        };
        (key.clone(), value)
    });
    node.calls.metadata = Secret::new(replaced.collect());
}

fn is_secret(key: &str, value: &str) -> bool {
    !value.is_empty() && (is_secret_name(key) || has_password(value))
}

fn name(node: &NodePlan, key: &str) -> String {
    variable(METADATA_PREFIX, &format!("{}_{key}", node.name))
}
