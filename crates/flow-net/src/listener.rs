//! Listening sockets, and the trait by which a [`Server`](crate::Server) accepts connections.
//!
//! Programs bind first and announce their address afterwards: port 0 works everywhere, and "port in use" is
//! an error before anything else has started.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::limits::{TCP_KEEPALIVE, TCP_KEEPALIVE_INTERVAL, TCP_KEEPALIVE_RETRIES};

/// Connections that the kernel completes before they are accepted. Each `post` of a stock client opens a
/// new one.
const BACKLOG: i32 = 1024;

/// A source of incoming connections.
///
/// A stream that needs a handshake, such as TLS, performs it in its first read: [`accept`](Self::accept)
/// must not wait for a client.
pub trait Accept: Send {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection, and the address that it comes from if there is one. Cancel safe: dropping the
    /// future loses no connection.
    ///
    /// # Errors
    ///
    /// If the connection could not be accepted. Later calls may succeed.
    fn accept(
        &mut self,
    ) -> impl Future<Output = io::Result<(Self::Stream, Option<SocketAddr>)>> + Send;

    /// Moves a connection on which nothing was read to the runtime of this thread.
    ///
    /// # Errors
    ///
    /// If the runtime cannot watch it.
    fn move_here(stream: Self::Stream) -> io::Result<Self::Stream>;
}

/// The same for a TCP connection.
pub(crate) fn move_tcp_here(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.into_std()?)
}

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
        io::ErrorKind::AddrInUse => {
            " (another program uses the port: stop it, or choose another port)"
        }
        io::ErrorKind::AddrNotAvailable => " (this machine has no such address)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need special rights)",
        _ => "",
    }
}

/// A TCP socket that listens.
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `host:port`; port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// If the host has no address on this machine, or the port is taken.
    pub async fn bind(host: &str, port: u16) -> Result<Self, BindError> {
        let bind = async {
            let inner = match host.parse() {
                Ok(Ipv4Addr::UNSPECIFIED) => bind_all_addresses(port).await?,
                _ => TcpListener::bind((host, port)).await?,
            };
            let address = inner.local_addr()?;
            Ok(Self { inner, address })
        };
        bind.await.map_err(|source| BindError {
            host: host.to_owned(),
            port,
            source,
        })
    }

    /// The address, with the port that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Accept for Listener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        let (stream, peer) = self.inner.accept().await?;
        if let Err(error) = configure(&stream) {
            // The client has gone already; its connection ends at the first read.
            tracing::debug!(%error, "cannot set options of a connection");
        }
        Ok((stream, Some(peer)))
    }

    fn move_here(stream: TcpStream) -> io::Result<TcpStream> {
        move_tcp_here(stream)
    }
}

fn configure(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    // Replies are written whole: waiting for more data to fill a segment would only delay them.
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(TCP_KEEPALIVE)
        .with_interval(TCP_KEEPALIVE_INTERVAL)
        .with_retries(TCP_KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&keepalive)
}

/// Binds all addresses of this machine, IPv6 included where it is available: what `0.0.0.0` means here.
async fn bind_all_addresses(port: u16) -> io::Result<TcpListener> {
    match bind_dual_stack(port) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_no_ipv6) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        listener => listener,
    }
}

fn bind_dual_stack(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    // A restarted process takes its old port again, even while connections to it are in TIME_WAIT.
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
    async fn a_taken_port_is_reported_with_a_remedy() {
        let first = Listener::bind("127.0.0.1", 0).await.unwrap();
        let port = first.local_addr().port();
        let error = Listener::bind("127.0.0.1", port)
            .await
            .unwrap_err()
            .to_string();
        let expected =
            format!("cannot listen on `127.0.0.1:{port}` (another program uses the port");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[tokio::test]
    async fn the_unspecified_address_is_every_address_of_this_machine() {
        let listener = Listener::bind("0.0.0.0", 0).await.unwrap();
        let port = listener.local_addr().port();
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_ok());
        assert!(Listener::bind("0.0.0.0", port).await.is_err());
        let has_ipv6 = TcpListener::bind("[::1]:0").await.is_ok();
        let connected = TcpStream::connect(("::1", port)).await.is_ok();
        assert_eq!(connected, has_ipv6);
    }

    #[tokio::test]
    async fn accepted_connections_have_keep_alive_and_no_delay() {
        let mut listener = Listener::bind("127.0.0.1", 0).await.unwrap();
        let client = TcpStream::connect(listener.local_addr());
        let (accepted, _client) = tokio::join!(listener.accept(), client);
        let (accepted, from) = accepted.unwrap();
        assert_eq!(from.unwrap().ip(), Ipv4Addr::LOCALHOST);
        let socket = SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), TCP_KEEPALIVE);
        let interval = socket.tcp_keepalive_interval().unwrap();
        let retries = socket.tcp_keepalive_retries().unwrap();
        assert_eq!(interval, TCP_KEEPALIVE_INTERVAL);
        assert_eq!(retries, TCP_KEEPALIVE_RETRIES);
    }
}
