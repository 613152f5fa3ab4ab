//! The configuration of a gateway, and the errors of its start.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_core::NodeName;
use flow_net::tls::{ServerTlsFiles, TlsError};
use flow_net::{LocalService, MetricsServerError};
use flow_otlp::{CannotExport, ExportSettings};
use flow_spec::Jwt;

use crate::auth::{ApiKeys, BadJwt, BadKeyFile};
use crate::gateway_limits::GatewayLimits;
use crate::pools::PlacementError;
use crate::supervisor::SupervisorClient;

/// Where a gateway listens, and what it accepts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen at.
    pub host: String,
    /// Port to listen at; 0 for any free port.
    pub port: u16,
    /// Further ports, in the order of the flow's.
    pub more_ports: Vec<u16>,
    /// Threads that serve connections, including the one that calls [`Gateway::serve`](crate::Gateway::serve).
    pub threads: NonZeroUsize,
    /// Limits on what clients send.
    pub limits: GatewayLimits,
    /// Port for metrics, 0 for any free port; `None` if the gateway is not monitored.
    pub monitoring: Option<u16>,
    /// What is exported to collectors of OpenTelemetry.
    pub export: ExportSettings,
    /// Files for TLS; `None` if connections are not encrypted.
    pub tls: Option<ServerTlsFiles>,
    /// API keys; `None` if requests need none.
    pub api_keys: Option<ApiKeys>,
    /// Tokens of an identity provider; `None` if it accepts none.
    pub jwt: Option<Jwt>,
    /// The supervisor of the flow, for the console; `None` for a gateway that runs alone.
    pub supervisor: Option<Arc<dyn SupervisorClient>>,
    /// The executors in this process, by node.
    pub colocated: HashMap<NodeName, LocalService>,
}

/// The gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayBindError {
    /// Its port could not be bound.
    #[error(transparent)]
    Listen(#[from] flow_net::BindError),
    /// The port for its metrics could not be bound.
    #[error(transparent)]
    Metrics(#[from] MetricsServerError),
    /// A node cannot be called as the flow says.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Telemetry cannot be exported.
    #[error(transparent)]
    Export(#[from] CannotExport),
    /// Tokens cannot be checked.
    #[error(transparent)]
    Tokens(#[from] BadJwt),
    /// A thread for connections or for compressed requests cannot be started.
    #[error("cannot start a thread of the gateway")]
    Thread(#[source] std::io::Error),
    /// The API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] BadKeyFile),
}
