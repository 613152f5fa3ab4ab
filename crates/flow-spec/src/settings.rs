//! What the parts of a flow are told to be: the gateway, a node's calls, and how a node runs.
//!
//! Every value in here is already checked and complete: defaults are filled in, inheritance is
//! done, and sentinels of the file (`-1`, `0`) have become options. [`Flow`](crate::Flow) and
//! [`Plan`](crate::Plan) share these types, for the graph is all that differs between them.

use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::address::Address;

/// Environment variables in the order they are set; each name stands in it once.
pub type Env = IndexMap<String, String>;

/// The process clients talk to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// Address it listens at.
    pub host: String,
    /// Port it listens at; none: any free one.
    pub port: Option<u16>,
    /// What it speaks there.
    pub protocol: Protocol,
    /// Requests of one stream that may be under way, unless the client asks for another number.
    pub prefetch: NonZeroUsize,
    /// Set in its process.
    pub env: Env,
    /// How its process logs; none: as the program was told.
    pub log: Option<Log>,
    /// How long it may take until it serves; none: for ever.
    pub timeout_ready: Option<Duration>,
}

/// What a gateway's port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Jina's gRPC services.
    Grpc,
}

/// How a process writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
    /// Not at all.
    Off,
}

/// How a node is called, wherever it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How long one call may take; none: as long as the request's own deadline says.
    pub timeout: Option<Duration>,
    /// How often a call that failed is tried again.
    pub retries: Retries,
    /// A request may run twice without harm, so one that was lost with its replica is tried again.
    pub idempotent: bool,
    /// gRPC metadata that goes with each call, in this order.
    pub metadata: Vec<(String, String)>,
}

/// How often a call is tried again that certainly did not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retries {
    /// As the connection pool thinks right for the number of replicas.
    #[default]
    Default,
    /// At most so many times; 0: never.
    Times(u32),
}

/// Who runs a node's replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Run {
    /// The flow starts them.
    Local(Box<LocalRun>),
    /// Somebody else has started them.
    External {
        /// One for each replica; never empty.
        addresses: Vec<Address>,
    },
}

/// Processes that the flow starts for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRun {
    /// The program.
    pub uses: Uses,
    /// What the executor is built with (`uses_with`).
    pub with: serde_json::Map<String, serde_json::Value>,
    /// What overrides the executor's own `metas`.
    pub metas: serde_json::Map<String, serde_json::Value>,
    /// Endpoint → name of the executor's method, where it differs from the executor's own binding.
    pub requests: IndexMap<String, String>,
    /// Processes that share the node's work.
    pub replicas: NonZeroU16,
    /// Set in each process.
    pub env: Env,
    /// Folder the executor may keep its files in.
    pub workspace: Option<PathBuf>,
    /// How long a replica may take until it is ready; none: for ever.
    pub timeout_ready: Option<Duration>,
    /// Address it listens at; none: only this machine reaches it.
    pub host: Option<String>,
    /// Port of the first replica, the second, …; replicas beyond the list take any free one.
    pub ports: Vec<u16>,
    /// How its processes log; none: as the program was told.
    pub log: Option<Log>,
}

/// The program that a node runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uses {
    /// An executor built into flow, or else a program on `PATH`.
    Named(String),
    /// Holds a slash: a program, or a folder or `config.yml` that names one.
    Path(PathBuf),
}
