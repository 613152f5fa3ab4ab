//! Where in a Kubernetes cluster a process runs, by the variables that Jina reads, too.

use std::collections::BTreeMap;

/// The variables, and the attributes of the semantic conventions that they set.
const VARIABLES: [(&str, &str); 6] = [
    ("K8S_NAMESPACE_NAME", "k8s.namespace.name"),
    ("K8S_DEPLOYMENT_NAME", "k8s.deployment.name"),
    ("K8S_STATEFULSET_NAME", "k8s.statefulset.name"),
    ("K8S_CLUSTER_NAME", "k8s.cluster.name"),
    ("K8S_NODE_NAME", "k8s.node.name"),
    ("K8S_POD_NAME", "k8s.pod.name"),
];

/// Where in a Kubernetes cluster a process runs, as far as its variables say so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place(Vec<(&'static str, String)>);

impl Place {
    pub(super) fn new(environment: &BTreeMap<String, String>) -> Self {
        let known = VARIABLES.iter().filter_map(|(variable, attribute)| {
            let value = environment.get(*variable).filter(|it| !it.is_empty())?;
            Some((*attribute, value.clone()))
        });
        Self(known.collect())
    }

    /// Whether this variable says where a process runs.
    pub(super) fn is_named_by(variable: &str) -> bool {
        VARIABLES.iter().any(|(name, _)| *name == variable)
    }

    /// The attributes.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}
