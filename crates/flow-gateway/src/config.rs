//! What a gateway needs to start, and why it may not.

use flow_net::MetricsServerError;
use flow_net::tls::{ServerTlsFiles, TlsError};
use flow_trace::{CannotExport, TraceSettings};

use crate::auth::{ApiKeys, BadKeyFile};
use crate::gateway_limits::GatewayLimits;
use crate::pools::PlacementError;

/// Where a gateway listens, and what it accepts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen at.
    pub host: String,
    /// Port to listen at; 0 for any free port.
    pub port: u16,
    /// Further ports, in the order of the flow's.
    pub more_ports: Vec<u16>,
    /// Limits on what clients send.
    pub limits: GatewayLimits,
    /// Port for metrics, 0 for any free port; `None` if the gateway is not monitored.
    pub monitoring: Option<u16>,
    /// How spans are exported; `None` if none are.
    pub tracing: Option<TraceSettings>,
    /// Files for TLS; `None` if connections are not encrypted.
    pub tls: Option<ServerTlsFiles>,
    /// API keys; `None` if requests need none.
    pub api_keys: Option<ApiKeys>,
}

/// The gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
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
    /// Spans cannot be exported.
    #[error(transparent)]
    Tracing(#[from] CannotExport),
    /// The API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] BadKeyFile),
}
