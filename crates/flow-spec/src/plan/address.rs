//! Where a replica listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a replica listens, and speaks gRPC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Address {
    /// A host and a port.
    Tcp(TcpAddress),
    /// A Unix socket of this machine.
    Unix {
        /// Its path.
        unix: PathBuf,
    },
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpAddress {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Name or IP address, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// A cleartext address of a host and a port.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp(TcpAddress {
            tls: false,
            host: host.into(),
            port,
        })
    }

    /// The host and the port, unless it is a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpAddress> {
        match self {
            Self::Tcp(address) => Some(address),
            Self::Unix { .. } => None,
        }
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.tcp().is_some_and(|it| it.tls)
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        Self::new(at.ip().to_string(), at.port())
    }
}

/// `http://host:port` or `https://host:port`, as an HTTP/2 client wants it, or `unix:/path`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { unix } => write!(f, "unix:{}", unix.display()),
        }
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_names_an_address_by_its_host_and_port_or_by_its_path() {
        let check = |address: Address, json: &str, text: &str| {
            assert_eq!(serde_json::to_string(&address).unwrap(), json);
            assert_eq!(serde_json::from_str::<Address>(json).unwrap(), address);
            assert_eq!(address.to_string(), text);
        };
        let tcp = r#"{"tls":false,"host":"::1","port":5}"#;
        check(Address::new("::1", 5), tcp, "http://[::1]:5");
        let unix = "/a/b.sock".into();
        let json = r#"{"unix":"/a/b.sock"}"#;
        check(Address::Unix { unix }, json, "unix:/a/b.sock");
    }
}
