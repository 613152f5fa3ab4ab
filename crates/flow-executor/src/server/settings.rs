//! How an executor is served.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use flow_core::{RequestLimits, Workers};
use flow_net::Limits;
use flow_trace::TraceSettings;
use serde_json::{Map, Value};

use crate::sdk::LoadContext;

/// How an executor is served.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The address to listen on.
    pub host: String,
    /// The port to listen on; 0 takes any free port.
    pub port: u16,
    /// The executor's options (`uses_with`).
    pub with: Map<String, Value>,
    /// Endpoint → method, where it differs from the executor's own binding.
    pub requests: BTreeMap<String, String>,
    /// Endpoint or method → how requests share calls, with Jina's names (`uses_dynamic_batching`).
    pub batching: Map<String, Value>,
    /// The number of threads that run the executor.
    pub workers: Workers,
    /// Names of failures after which the process ends, as replies have them, or `panic`.
    pub exit_on_exceptions: Vec<String>,
    /// What the executor can use while it loads.
    pub context: LoadContext,
    /// Limits on messages.
    pub limits: Limits,
    /// Limits on the parts of a request.
    pub request_limits: RequestLimits,
    /// Bytes of requests that may wait or run, half of them for each priority; `None` for no limit.
    pub request_memory_max: Option<usize>,
    /// How metrics are served; `None` measures nothing.
    pub monitoring: Option<Monitoring>,
    /// How spans are exported; `None` if none are.
    pub tracing: Option<TraceSettings>,
}

/// How the metrics of a process are served.
#[derive(Debug, Clone, Default)]
pub struct Monitoring {
    /// The port to listen on; 0 takes any free port.
    pub port: u16,
    /// The value of the label `runtime_name`, such as `enc/rep-0`.
    pub runtime_name: String,
}

/// Where an executor listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// For requests.
    pub serving: SocketAddr,
    /// For its metrics, if it serves any.
    pub metrics: Option<SocketAddr>,
}

impl From<SocketAddr> for Addresses {
    fn from(serving: SocketAddr) -> Self {
        Self {
            serving,
            metrics: None,
        }
    }
}
