//! A listener that already has its port.
//!
//! Programs bind first and tell their address afterwards: port 0 works everywhere, and "port in use" is
//! an error before anything else has started.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;

/// Connections that may wait to be accepted: each `post` of a stock client makes a new one.
const BACKLOG: i32 = 1024;

/// The address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{host}:{port}`{}", remedy(source))]
pub struct BindError {
    host: String,
    port: u16,
    source: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another program has the port: stop it, or choose another)",
        io::ErrorKind::AddrNotAvailable => " (this machine has no such address)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need special rights)",
        _ => "",
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Listens on `host:port`; port 0 takes any that is free.
    ///
    /// # Errors
    ///
    /// If the host has no address here, or the port is taken.
    pub async fn listen(host: &str, port: u16) -> Result<Self, BindError> {
        let bind = async {
            let listener = match host.parse() {
                Ok(Ipv4Addr::UNSPECIFIED) => listen_everywhere(port).await?,
                _ => TcpListener::bind((host, port)).await?,
            };
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bind.await.map_err(|source| BindError {
            host: host.to_owned(),
            port,
            source,
        })
    }

    /// The address with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn into_listener(self) -> TcpListener {
        self.listener
    }

    pub(crate) fn into_incoming(self) -> TcpIncoming {
        // Replies are written whole: waiting for more to fill a segment only delays them.
        TcpIncoming::from(self.listener).with_nodelay(Some(true))
    }
}

/// `0.0.0.0` means every address of this machine, the IPv6 ones included where it has any.
async fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    match both_families(port) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_no_ipv6) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        listener => listener,
    }
}

fn both_families(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    // A restarted process takes its old port again, connections of the old one notwithstanding.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_with_what_to_do() {
        let first = Bound::listen("127.0.0.1", 0).await.unwrap();
        let port = first.local_addr().port();
        let error = Bound::listen("127.0.0.1", port)
            .await
            .unwrap_err()
            .to_string();
        let expected = format!("cannot listen on `127.0.0.1:{port}` (another program has the port");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[tokio::test]
    async fn everywhere_is_every_address_of_this_machine() {
        let bound = Bound::listen("0.0.0.0", 0).await.unwrap();
        let port = bound.local_addr().port();
        assert!(
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
        );
        assert!(Bound::listen("0.0.0.0", port).await.is_err());
        let has_ipv6 = TcpListener::bind("[::1]:0").await.is_ok();
        assert_eq!(
            tokio::net::TcpStream::connect(("::1", port)).await.is_ok(),
            has_ipv6
        );
    }
}
