//! Where a replica listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use flow_core::NodeName;
use serde::{Deserialize, Serialize};

use crate::service_address::ServiceAddress;

/// Where a replica listens, and speaks gRPC, or where several do.
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
    /// A service in the DNS, each instance of which is a replica.
    Service(ServiceAddress),
    /// The process of the gateway itself.
    Colocated {
        /// The name of the node.
        colocated: NodeName,
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

    /// The host and the port, if it has them.
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpAddress> {
        match self {
            Self::Tcp(address) => Some(address),
            Self::Unix { .. } | Self::Service(_) | Self::Colocated { .. } => None,
        }
    }

    /// The service, if it is one.
    #[must_use]
    pub fn service(&self) -> Option<&ServiceAddress> {
        match self {
            Self::Service(service) => Some(service),
            Self::Tcp(_) | Self::Unix { .. } | Self::Colocated { .. } => None,
        }
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        match self {
            Self::Tcp(address) => address.tls,
            Self::Service(service) => service.tls,
            Self::Unix { .. } | Self::Colocated { .. } => false,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        Self::new(at.ip().to_string(), at.port())
    }
}

/// `http://host:port` or `https://host:port`, as an HTTP/2 client wants it, `unix:/path`, `srv://service`, or
/// `colocated:node`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { unix } => write!(f, "unix:{}", unix.display()),
            Self::Service(service) => service.fmt(f),
            Self::Colocated { colocated } => write!(f, "colocated:{colocated}"),
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
    fn a_placement_names_an_address_by_its_host_and_port_its_path_its_service_or_its_node() {
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
        let service = ServiceAddress::parse("127.0.0.1:8600/_grpc._tcp.a").unwrap();
        let json = r#"{"tls":false,"service":"_grpc._tcp.a","name_server":"127.0.0.1:8600"}"#;
        let text = "srv://127.0.0.1:8600/_grpc._tcp.a";
        check(Address::Service(service), json, text);
        let colocated = "enc".parse().unwrap();
        let json = r#"{"colocated":"enc"}"#;
        check(Address::Colocated { colocated }, json, "colocated:enc");
    }
}
