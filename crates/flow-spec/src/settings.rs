//! What the parts of a flow are told to be: the gateway, a node's calls, and how a node runs.
//!
//! Every value in here is already checked and complete: defaults are filled in, inheritance is
//! done, and sentinels of the file (`-1`, `0`) have become options. [`Flow`](crate::Flow) and
//! [`Plan`](crate::Plan) share these types, for the graph is all that differs between them.

use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

pub use flow_core::Workers;
use flow_core::query::Query;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::container::Container;

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
    /// Requests of all streams and calls together that may be under way.
    pub in_flight_max: NonZeroUsize,
    /// Set in its process.
    pub env: Env,
    /// How its process logs; none: as the program was told.
    pub log: Option<Log>,
    /// How long it may take until it serves; none: for ever.
    pub timeout_ready: Option<Duration>,
    /// How it shows what it counts; none: it counts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
}

/// How processes show what they count: in Prometheus' text format, over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitoring {
    /// Port of the first process, the second, …; 0, and those beyond the list: any free one.
    pub ports: Vec<u16>,
}

impl Monitoring {
    /// The port of one of the processes, numbered from 0; 0: any free one.
    #[must_use]
    pub fn port(&self, process: usize) -> u16 {
        self.ports.get(process).copied().unwrap_or(0)
    }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How long one call may take; none: as long as the request's own deadline says.
    pub timeout: Option<Duration>,
    /// How often a call that failed is tried again.
    pub retries: Retries,
    /// A request may run twice without harm, so one that was lost with its replica is tried again.
    pub idempotent: bool,
    /// gRPC metadata that goes with each call, in this order.
    pub metadata: Vec<(String, String)>,
    /// Which shards a request goes to, where there are several.
    pub polling: Polling,
    /// Several inputs of the node, or replies of its shards, become one array of documents; otherwise
    /// they are handed on as the parts they are.
    pub reduce: bool,
    /// Only documents that match go to the node; none: all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Query>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            timeout: None,
            retries: Retries::Default,
            idempotent: false,
            metadata: Vec::new(),
            polling: Polling::default(),
            reduce: true,
            when: None,
        }
    }
}

/// Which shards of a node a request goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Poll {
    /// One of them, in turn.
    #[default]
    Any,
    /// Each of them.
    All,
}

/// Polling by endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polling {
    /// For endpoints of which nothing else is said.
    pub default: Poll,
    /// As the file says; these go before everything else.
    pub by_endpoint: IndexMap<String, Poll>,
}

impl Polling {
    /// How requests to this endpoint are polled. Where the file is silent, `/search` asks every shard and
    /// `/index` one, as in Jina.
    #[must_use]
    pub fn of(&self, endpoint: &str) -> Poll {
        let written = self.by_endpoint.get(endpoint).copied();
        let unwritten = UNWRITTEN.iter().find(|(name, _)| *name == endpoint);
        written.unwrap_or(unwritten.map_or(self.default, |(_, poll)| *poll))
    }

    /// The endpoints that are not polled as `default` says.
    #[must_use]
    pub fn exceptions(&self) -> Vec<&str> {
        let written = self.by_endpoint.keys().map(String::as_str);
        let unwritten = UNWRITTEN.iter().map(|(endpoint, _)| *endpoint);
        let unwritten = unwritten.filter(|it| !self.by_endpoint.contains_key(*it));
        let all = written.chain(unwritten);
        all.filter(|it| self.of(it) != self.default).collect()
    }
}

/// How endpoints are polled that the file does not name.
const UNWRITTEN: [(&str, Poll); 2] = [("/index", Poll::Any), ("/search", Poll::All)];

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
    /// Parts that the node's own state is cut into, each with replicas of its own.
    pub shards: NonZeroU16,
    /// Processes that share a shard's work.
    pub replicas: NonZeroU16,
    /// Called before the shards, with what they are to get; only where there are several.
    pub before: Option<Uses>,
    /// Called after the shards, with the replies of all of them; only where there are several.
    pub after: Option<Uses>,
    /// Threads of each process that run the executor side by side.
    pub workers: Workers,
    /// Endpoint or method → how requests to it share calls, where it differs from the executor's own rule.
    pub batching: IndexMap<String, Batching>,
    /// Names of exceptions after whose reply the process ends.
    pub exit_on_exceptions: Vec<String>,
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
    /// What its containers are like, where `uses` is an image.
    #[serde(default)]
    pub container: Container,
    /// How its processes show what they count; none: they count nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
}

/// How requests share calls of an executor, with Jina's names; none: as the executor says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batching {
    /// Documents, or weight, of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_batch_size: Option<NonZeroUsize>,
    /// How long the oldest document may wait for company, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// What has gathered goes in one call, however much it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_all: Option<bool>,
    /// Sizes are the executor's own weights of documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_custom_metric: Option<bool>,
    /// What sizes are counted in; a key of flow's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Whether this rule counts at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_dynamic_batching: Option<bool>,
}

/// What the size of a batch is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Documents.
    Documents,
    /// Bytes of the documents' messages.
    Bytes,
    /// The executor's own weight of each document.
    Custom,
}

/// The program that a node runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uses {
    /// An executor built into flow, or else a program on `PATH`.
    Named(String),
    /// Holds a slash: a program, or a folder or `config.yml` that names one.
    Path(PathBuf),
    /// An image of a container, by the name that a Docker engine knows it by.
    Image(String),
}
