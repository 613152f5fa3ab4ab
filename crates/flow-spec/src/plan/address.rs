//! Where a replica listens.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A host and a port that speak gRPC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Name or IP address, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// A cleartext address.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            tls: false,
            host: host.into(),
            port,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        Self::new(at.ip().to_string(), at.port())
    }
}

/// `http://host:port` or `https://host:port`, as an HTTP/2 client wants it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}
