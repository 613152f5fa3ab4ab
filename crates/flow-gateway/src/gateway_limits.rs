//! The limits of a gateway.

use flow_core::RequestLimits;
use flow_net::{ConnectionLimits, Limits};

/// Limits on what clients send to a gateway.
#[derive(Debug, Clone, Copy, Default)]
pub struct GatewayLimits {
    /// Limits on messages.
    pub messages: Limits,
    /// Limits on the parts of requests.
    pub requests: RequestLimits,
    /// Limits on connections.
    pub connections: ConnectionLimits,
    /// Bytes of requests and replies that the process may hold; `None` for no limit.
    pub memory_max: Option<usize>,
}
