//! Where a process accepts requests.

use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The variable with the path of the Unix socket at which an executor listens instead of at a port. Launchers set it.
/// Programs that do not know it listen at their port, and say so when they are ready.
pub const LISTEN_SOCKET_VARIABLE: &str = "FLOW_LISTEN_SOCKET";

/// What the text of a Unix socket's address begins with.
const UNIX: &str = "unix:";

/// Where a process accepts requests. As text, `127.0.0.1:54321` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ListenAddress {
    /// At a port.
    Tcp(SocketAddr),
    /// At a Unix socket with this path, which only the same user may use.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address with its port, unless it is a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The path of the Unix socket, if it is one.
    #[must_use]
    pub fn unix(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(path) => Some(path),
        }
    }

    /// The address as clients name it: `http://host:port` or `unix:/path`.
    #[must_use]
    pub fn uri(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}"),
            Self::Unix(_) => self.to_string(),
        }
    }

    /// The address for a table that people read: of a Unix socket, its name without its folder.
    #[must_use]
    pub fn short(&self) -> String {
        match self.unix().and_then(Path::file_name) {
            Some(name) => format!("{UNIX}…/{}", name.to_string_lossy()),
            None => self.to_string(),
        }
    }

    /// The port, unless it is a Unix socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.tcp().map(|it| it.port())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        match text.strip_prefix(UNIX) {
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp),
        }
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = AddrParseError;

    fn try_from(text: String) -> Result<Self, AddrParseError> {
        text.parse()
    }
}

impl From<ListenAddress> for String {
    fn from(address: ListenAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_text_in_json() {
        for (text, port) in [
            ("127.0.0.1:5", Some(5)),
            ("[::1]:6", Some(6)),
            ("unix:/a b/c.sock", None),
        ] {
            let json = format!("\"{text}\"");
            let address: ListenAddress = serde_json::from_str(&json).unwrap();
            assert_eq!(address.port(), port);
            assert_eq!(address.unix().is_some(), port.is_none());
            assert_eq!(serde_json::to_string(&address).unwrap(), json);
        }
        let socket: ListenAddress = "unix:/a b/c.sock".parse().unwrap();
        assert_eq!(socket.short(), "unix:…/c.sock");
        assert!("localhost".parse::<ListenAddress>().is_err());
    }
}
