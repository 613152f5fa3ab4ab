//! A plan as files that others run: for Docker Compose and for Kubernetes. Pure: text comes out.
//!
//! ```text
//! Plan ──► Parts       the containers of a flow   parts.rs
//!      ──► Placement   for the gateway            placement.rs
//!      ──► Rendered    files and remarks          compose.rs, kubernetes.rs; as YAML by yaml.rs
//! ```
//!
//! What Compose and Kubernetes have in common is decided once, in `parts.rs`: which containers there are,
//! what runs in them, with what arguments. The gateway learns from its placement where they are: there it
//! reaches every address behind a name, so it needs no load balancer and no mesh in between. In that
//! placement all nodes are external, so that it holds no executor's options or environment.

mod compose;
mod devices;
mod kubernetes;
mod parts;
mod placement;
mod yaml;

use std::path::PathBuf;

use indexmap::IndexMap;

pub use compose::compose;
pub use devices::BadDevices;
pub use kubernetes::{Autoscale, Cache, Kubernetes, Resources, SecretVariable, kubernetes};

/// What the files are made for, whoever runs them.
#[derive(Debug, Clone)]
pub struct Target {
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
    /// What the processes of built-in executors need, by the names that `--image` knows.
    pub needs: IndexMap<String, Needs>,
    /// CUDA devices of the machine, where the flow file leaves their number open.
    pub devices: Option<u16>,
}

/// What a process needs of its machine, as far as that is known before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of memory; `None` where nobody can say.
    pub memory: Option<u64>,
    /// It downloads models, and finds them again in the cache folder.
    pub downloads_models: bool,
}

/// Files, and what is to be known about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// In the order in which they are best read.
    pub files: Vec<RenderedFile>,
    /// What differs from `flow up`, or needs a hand; each a sentence.
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
pub enum BadExport {
    /// There is no image that holds what a container is to run.
    #[error(
        "`{uses}` of `{key}` is not in flow's own image: name one that holds it with `--image {key}=IMAGE`"
    )]
    NoImage {
        /// The node, or the node and `-uses-before` or `-uses-after`.
        key: String,
        /// What it uses, as written.
        uses: String,
    },
    /// An option is about a node that the flow does not start.
    #[error("`{option}` names `{name}`, which is no executor that the flow starts")]
    NoSuchNode {
        /// The option.
        option: &'static str,
        /// The name it was given.
        name: String,
    },
    /// An autoscaler has nothing to measure the CPU time of a pod against.
    #[error(
        "`--autoscale {0}=…` compares the CPU time of a pod with the CPU that the pod requests: say how much that is, such as `--resources {0}=cpu:2`"
    )]
    NoCpu(String),
    /// Two options say how many gateways there are.
    #[error(
        "`--gateways {0}` and `--autoscale gateway=…` both say how many gateways there are: keep one of them"
    )]
    TwoGatewayCounts(u16),
    /// The node's name makes no host name.
    #[error(
        "the containers of `{0}` need a host name of 1 to 63 letters, digits and `-`: rename it"
    )]
    BadName(String),
    /// The namespace is none.
    #[error(
        "`{0}` is no namespace: 1 to 63 small letters, digits and `-`, a letter or digit at both ends"
    )]
    BadNamespace(String),
    /// Two nodes have the same name as hosts.
    #[error("two containers would be named `{0}`: rename an executor")]
    SameName(String),
    /// The node's devices cannot be told from the file.
    #[error("the replicas of `{name}` cannot be given devices: {why}")]
    Devices {
        /// The replicas' name.
        name: String,
        /// What is wrong.
        why: BadDevices,
    },
}
