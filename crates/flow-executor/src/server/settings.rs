//! How an executor is served.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use flow_core::{RequestLimits, Secret, Workers};
use flow_net::Limits;
use flow_otlp::ExportSettings;
use flow_process::ListenAddress;
use serde_json::{Map, Value};

use crate::sdk::LoadContext;

/// How an executor is served.
#[derive(Debug, Clone, Default)]
pub struct ServerSettings {
    /// The address to listen on.
    pub host: String,
    /// The port to listen on; 0 takes any free port.
    pub port: u16,
    /// Path of a Unix socket to listen at, instead of the port; `None` listens at the port.
    pub socket: Option<PathBuf>,
    /// The executor's options (`uses_with`).
    pub with: Secret<Map<String, Value>>,
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
    /// How metrics are served; `None` disables the server. They are measured if they are served or exported.
    pub monitoring: Option<Monitoring>,
    /// Path of the status socket; `None` serves no status.
    pub status_socket: Option<PathBuf>,
    /// What is exported to collectors of OpenTelemetry.
    pub export: ExportSettings,
}

/// How the metrics of a process are served.
#[derive(Debug, Clone, Default)]
pub struct Monitoring {
    /// The port to listen on; 0 takes any free port.
    pub port: u16,
    /// The value of the label `runtime_name`, such as `enc/rep-0`.
    pub runtime_name: String,
}

impl ServerSettings {
    /// The value of the label `runtime_name` of metrics; `None` if nothing is measured.
    pub(crate) fn measured_name(&self) -> Option<&str> {
        let served = self.monitoring.as_ref().map(|it| it.runtime_name.as_str());
        let is_exported = self.export.metrics.is_some();
        served.or_else(|| is_exported.then_some(self.export.runtime_name.as_str()))
    }
}

/// Where an executor listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// For requests.
    pub serving: ListenAddress,
    /// For its metrics, if it serves any.
    pub metrics: Option<SocketAddr>,
}

impl From<SocketAddr> for Addresses {
    fn from(serving: SocketAddr) -> Self {
        Self {
            serving: serving.into(),
            metrics: None,
        }
    }
}
