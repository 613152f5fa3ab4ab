//! The options of an export for Swarm.

use std::num::NonZeroU16;

use indexmap::IndexMap;

/// Options of the export. Names are those of nodes, or `gateway`.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// Number of gateways.
    pub gateways: NonZeroU16,
    /// How clients reach the gateways.
    pub publish: Publish,
    /// Constraints on the nodes of tasks, such as `node.labels.gpu==true`.
    pub constraints: Vec<(String, String)>,
    /// Resources of each task of a node.
    pub resources: IndexMap<String, TaskResources>,
    /// Secrets with files of the gateway, by the key of the flow file: `ssl_certfile`, `ssl_keyfile`, `ssl_ca_certs`
    /// and `api_keys`.
    pub secrets: IndexMap<String, String>,
    /// Variables that name the file of a secret.
    pub secret_files: Vec<(String, SecretFile)>,
    /// The name by which nodes announce their GPUs.
    pub gpu_resource: String,
}

/// How the port of the gateways is published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Publish {
    /// On every node of the Swarm, which passes connections on to some gateway.
    #[default]
    Ingress,
    /// On the nodes where a gateway runs, which sees the addresses of its clients.
    Host,
}

/// Resources of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskResources {
    /// CPUs that are reserved, such as `0.5`.
    pub cpu: Option<String>,
    /// CPUs that it may use at most.
    pub cpu_limit: Option<String>,
    /// Memory that is reserved, and its limit, in Docker's notation, such as `4G`.
    pub memory: Option<String>,
}

/// A variable whose value is the path of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// The variable's name.
    pub variable: String,
    /// The secret's name.
    pub secret: String,
}

impl Swarm {
    pub(super) fn constraints_of(&self, key: &str) -> impl Iterator<Item = &String> {
        let own = self.constraints.iter().filter(move |(name, _)| name == key);
        own.map(|(_, constraint)| constraint)
    }

    pub(super) fn secret_files_of(&self, key: &str) -> impl Iterator<Item = &SecretFile> {
        let own = self
            .secret_files
            .iter()
            .filter(move |(name, _)| name == key);
        own.map(|(_, file)| file)
    }
}
