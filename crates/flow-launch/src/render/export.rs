//! The options, the files and the errors that all exports share.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;

use crate::render::devices::BadDevices;

/// Options that all exports share.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The flow's name, for labels.
    pub flow: String,
    /// The flow file's name, for comments.
    pub source: String,
    /// The image of the program `flow`: gateway and built-in executors.
    pub image: String,
    /// Images of single nodes, whose entry point takes an executor's arguments.
    pub images: IndexMap<String, String>,
    /// Names of the executors in flow's own image.
    pub built_in: Vec<String>,
    /// The needs of built-in executors, by the names of `--image`.
    pub needs: IndexMap<String, Needs>,
    /// Time for requests in progress to finish when a container stops.
    pub grace: Duration,
    /// CUDA devices of the machine, where the flow file leaves their number open.
    pub devices: Option<u16>,
}

/// Where the files of a gateway are in its container. `None` for those that it does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GatewayFiles {
    /// That of `ssl_certfile`.
    pub(crate) certificate: Option<PathBuf>,
    /// That of `ssl_keyfile`.
    pub(crate) key: Option<PathBuf>,
    /// That of `ssl_ca_certs`.
    pub(crate) client_authorities: Option<PathBuf>,
    /// That of `api_keys`.
    pub(crate) api_keys: Option<PathBuf>,
}

/// The known needs of a process before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of memory; `None` if unknown.
    pub memory: Option<u64>,
    /// Whether it downloads models to the cache folder.
    pub downloads_models: bool,
}

/// The files of an export, and remarks about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// In reading order.
    pub files: Vec<RenderedFile>,
    /// Differences from `flow up` and manual steps, one sentence each.
    pub remarks: Vec<String>,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Below the folder of the export.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// The commands that build an image of the program `flow`, to be run in a checkout of flow.
#[must_use]
pub fn build_commands(image: &str) -> String {
    format!(
        "cargo build --release && docker build -f docker/Dockerfile --target gateway -t {image} ."
    )
}

/// Why a plan cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// A file for checking tokens is not in the gateway's container.
    #[error(
        "`jwt_keys` or `jwt_ca_certs` of the gateway names a file of this machine, which cannot be exported: write the `https://` address of the identity provider's keys"
    )]
    TokenFiles,
    /// No secret holds a file that the gateway needs.
    #[error(
        "`{key}` of the gateway names a file of this machine: keep the file in a secret, and name it with `{option}`"
    )]
    NoSecret {
        /// The key of the flow file.
        key: &'static str,
        /// The option that names the secret.
        option: &'static str,
    },
    /// A secret is for a file that the gateway does not need.
    #[error("`{option}` is for `{key}`, which the flow file does not have")]
    UnusedSecret {
        /// The key of the flow file.
        key: &'static str,
        /// The option that names the secret.
        option: &'static str,
    },
    /// The cluster's Gateway ends TLS, and the flow's gateway has TLS of its own.
    #[error(
        "`--route` leads connections without TLS to the gateway, which has `ssl_certfile`: leave that out, and give the certificate to the Gateway of the cluster"
    )]
    RouteWithTls,
    /// The engine or cluster has no such option.
    #[error("`{name}` has `{key}`, {why}")]
    Unsupported {
        /// The node.
        name: String,
        /// The key of the flow file.
        key: &'static str,
        /// The reason, and the remedy.
        why: &'static str,
    },
    /// An external executor is called with files that an export does not have.
    #[error("`{0}` is called with certificates of this machine, which cannot be exported yet")]
    CallFiles(String),
    /// No image holds the executor.
    #[error(
        "`{uses}` of `{key}` is not in flow's own image: name one that holds it with `--image {key}=IMAGE`"
    )]
    NoImage {
        /// The node, or the node and `-uses-before` or `-uses-after`.
        key: String,
        /// What it uses, as written.
        uses: String,
    },
    /// An option names a node that the flow does not start.
    #[error("`{option}` names `{name}`, which is not an executor that the flow starts")]
    NoSuchNode {
        /// The option.
        option: &'static str,
        /// The name it was given.
        name: String,
    },
    /// An autoscaler has no CPU request to compare with.
    #[error(
        "`--autoscale {0}=…` compares the CPU time of a pod with the CPU that the pod requests: set it, such as `--resources {0}=cpu:2`"
    )]
    NoCpu(String),
    /// An autoscaler has no metric to follow.
    #[error(
        "`--autoscale {0}=…@requests:N` follows a metric of `{0}`: set `monitoring: true` for it in the flow file"
    )]
    NotMonitored(String),
    /// Two options set the number of gateways.
    #[error(
        "`--gateways {0}` and `--autoscale gateway=…` both say how many gateways there are: keep one of them"
    )]
    TwoGatewayCounts(u16),
    /// The node's name is not a valid host name.
    #[error(
        "the containers of `{0}` need a host name of 1 to 63 letters, digits and `-`: rename it"
    )]
    BadName(String),
    /// The namespace is not valid.
    #[error(
        "`{0}` is not a valid namespace: use 1 to 63 lower-case letters, digits and `-`, with a letter or digit at both ends"
    )]
    BadNamespace(String),
    /// Two nodes have the same host name.
    #[error("two containers would be named `{0}`: rename an executor")]
    SameName(String),
    /// The file does not define the node's devices.
    #[error("the replicas of `{name}` cannot be given devices: {why}")]
    Devices {
        /// The replicas' name.
        name: String,
        /// What is wrong.
        why: BadDevices,
    },
}
