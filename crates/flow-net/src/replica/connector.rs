//! Connects to a replica, and notes whether a process has sent anything on the connection.
//!
//! A connection can be accepted without a process behind it: the Docker engine accepts connections to the published port
//! of a container that is not running, and resets them. A server that runs sends its HTTP/2 settings at once. One that
//! has made a TLS handshake has sent something, too.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::fs::File;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::resolver::ShufflingResolver;
use crate::BoxError;
use crate::limits::TCP_KEEPALIVE;
use crate::local_listener::enlarge_send_buffer;
use crate::tls::ClientTls;

/// Whether bytes have arrived on the newest connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerSpoke(Arc<AtomicBool>);

impl PeerSpoke {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, spoke: bool) {
        self.0.store(spoke, Ordering::Relaxed);
    }
}

/// Default time for a connection, with a TLS handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Bytes of a socket's path that every kernel takes.
const PATH_LEN_MAX: usize = 100;

/// The path in the address of a Unix socket, `unix:/path` or `unix:///path`; `None` if it is another address.
pub(crate) fn socket_path(uri: &str) -> Option<&Path> {
    let path = uri.strip_prefix("unix:")?;
    Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
}

/// Makes the connections of one replica.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector<ShufflingResolver>,
    /// The path of the Unix socket that it connects to, whatever URI is called.
    socket: Option<PathBuf>,
    tls: Option<ClientTls>,
    peer_spoke: PeerSpoke,
    limit: Duration,
    /// The time for the TCP connection alone.
    tcp_limit: Duration,
}

/// A connection was not made in time.
///
/// The time is limited here and not by [`tonic::transport::Endpoint::connect_timeout`], whose error looks like that of a connection
/// which broke, on which a request may have been sent.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {limit:?}")]
struct ConnectTimeout {
    limit: Duration,
}

impl Connector {
    pub(crate) fn new(tls: Option<ClientTls>, peer_spoke: PeerSpoke) -> Self {
        Self {
            tcp: tcp(ShufflingResolver::new()),
            socket: None,
            tls,
            peer_spoke,
            limit: CONNECT_MAX,
            tcp_limit: CONNECT_MAX,
        }
    }

    /// Connects to whichever of these addresses answers, whatever host is called.
    pub(crate) fn at(mut self, addresses: &[SocketAddr]) -> Self {
        self.tcp = tcp(ShufflingResolver::knowing(addresses));
        self
    }

    /// Connects to a Unix socket, if the address is that of one.
    pub(crate) fn to(mut self, address: &str) -> Self {
        self.socket = socket_path(address).map(Path::to_owned);
        self
    }

    /// Gives up a connection that is not made within this time.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The same for the part of it that makes a TCP connection, which needs nothing of the peer's process.
    pub(crate) fn with_tcp_within(mut self, limit: Duration) -> Self {
        self.tcp.set_connect_timeout(Some(limit));
        self.tcp_limit = limit;
        self
    }
}

impl Service<Uri> for Connector {
    type Response = ReplicaConnection;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ReplicaConnection, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let peer_spoke = self.peer_spoke.clone();
        if let Some(path) = self.socket.clone() {
            let limit = self.limit;
            return Box::pin(async move {
                let connected = tokio::time::timeout(limit, connect_to(&path)).await;
                let stream = connected.map_err(|_elapsed| ConnectTimeout { limit })??;
                let stream = TokioIo::new(stream);
                peer_spoke.set(false);
                let stream = ClientStream::Local { stream };
                Ok(ReplicaConnection::new(stream, peer_spoke))
            });
        }
        let host = uri.host().unwrap_or_default().to_owned();
        let connecting = self.tcp.call(uri);
        let tls = self.tls.clone();
        let (limit, tcp_limit) = (self.limit, self.tcp_limit);
        let connecting = async move {
            let stream = connecting.await;
            let stream = stream.map_err(|error| explained(error, tcp_limit))?;
            peer_spoke.set(false);
            let stream = match tls {
                None => ClientStream::Plain { stream },
                Some(tls) => {
                    let stream = tls.connect(&host, stream.into_inner()).await?;
                    peer_spoke.set(true);
                    let stream = Box::new(TokioIo::new(stream));
                    ClientStream::Encrypted { stream }
                }
            };
            Ok(ReplicaConnection::new(stream, peer_spoke))
        };
        Box::pin(async move {
            match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected,
                Err(_elapsed) => Err(ConnectTimeout { limit }.into()),
            }
        })
    }
}

/// The error, or a clearer one for a connection that was not made in time: the connector says `deadline has elapsed`, which
/// reads like the deadline of the request.
fn explained(error: impl Error + Send + Sync + 'static, limit: Duration) -> BoxError {
    let cause = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    match cause.is_some_and(|it| it.kind() == io::ErrorKind::TimedOut && it.get_ref().is_some()) {
        true => ConnectTimeout { limit }.into(),
        false => error.into(),
    }
}

fn tcp(resolver: ShufflingResolver) -> HttpConnector<ShufflingResolver> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // No HTTP/2 pings: stock servers close a connection on which more than one in five minutes arrives.
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(crate::limits::TCP_UNACKNOWLEDGED_MAX));
    tcp
}

/// Connects to a Unix socket.
async fn connect_to(path: &Path) -> io::Result<UnixStream> {
    let stream = connect_by_any_path(path).await?;
    enlarge_send_buffer(&stream);
    Ok(stream)
}

/// Connects by a path of any length. The kernel takes about a hundred bytes of a socket's path, so a longer one goes through the
/// descriptor of the opened folder.
async fn connect_by_any_path(path: &Path) -> io::Result<UnixStream> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if path.as_os_str().len() > PATH_LEN_MAX => {
            let folder = File::open(folder).await?;
            let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
            UnixStream::connect(short.join(name)).await
        }
        _ => UnixStream::connect(path).await,
    }
}

/// A connection that notes when bytes arrive.
#[derive(Debug)]
pub(crate) struct ReplicaConnection {
    stream: ClientStream,
    /// Shared with later connections.
    peer_spoke: PeerSpoke,
    /// Whether bytes have arrived on this connection.
    has_spoken: bool,
}

/// A connection to a server, encrypted or not.
#[derive(Debug)]
enum ClientStream {
    Plain {
        stream: TokioIo<TcpStream>,
    },
    Encrypted {
        stream: Box<TokioIo<TlsStream<TcpStream>>>,
    },
    Local {
        stream: TokioIo<UnixStream>,
    },
}

/// Calls a method of the stream, whichever it is.
macro_rules! on_stream {
    ($connection:expr, $stream:ident => $call:expr) => {
        match &mut $connection.stream {
            ClientStream::Plain { stream } => {
                let $stream = Pin::new(stream);
                $call
            }
            ClientStream::Encrypted { stream } => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
            ClientStream::Local { stream } => {
                let $stream = Pin::new(stream);
                $call
            }
        }
    };
}

impl ReplicaConnection {
    fn new(stream: ClientStream, peer_spoke: PeerSpoke) -> Self {
        Self {
            stream,
            peer_spoke,
            has_spoken: false,
        }
    }

    /// The result of a write. It says so if the process ended before it sent anything.
    fn written<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(error) if self.has_ended_silently() => Err(ended_silently(&error)),
            result => result,
        }
    }

    /// Whether the process at a Unix socket has sent nothing and will send nothing more. What a process sent before it ended can
    /// still be read from a Unix socket, and an HTTP/2 server sends its settings before it reads a request. So none has run.
    /// A TCP connection that is reset loses what was sent, and proves nothing.
    fn has_ended_silently(&self) -> bool {
        let ClientStream::Local { stream } = &self.stream else {
            return false;
        };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        !self.has_spoken
            && match rustix::net::recv(stream.inner(), &mut [0; 1][..], flags) {
                Ok((len, _)) => len == 0,
                Err(error) => error != Errno::AGAIN && error != Errno::INTR,
            }
    }
}

/// The error of a connection whose process ended before it sent anything, which [`status`](crate::status) knows by its kind. The
/// cause is part of the text, because h2 keeps only the kind and the text.
fn ended_silently(error: &io::Error) -> io::Error {
    let message = format!("the process ended before it answered on the connection: {error}");
    io::Error::new(io::ErrorKind::ConnectionRefused, message)
}

impl Read for ReplicaConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_spoken {
            return on_stream!(this, stream => stream.poll_read(cx, buffer));
        }
        // Until the first bytes a small buffer of our own shows how many there are.
        let mut first = [0; 64];
        let room = first.len().min(buffer.remaining());
        let mut first = hyper::rt::ReadBuf::new(&mut first[..room]);
        let read = on_stream!(this, stream => stream.poll_read(cx, first.unfilled()));
        if !first.filled().is_empty() {
            this.has_spoken = true;
            this.peer_spoke.set(true);
            buffer.put_slice(first.filled());
        }
        match (read, &this.stream) {
            (Poll::Ready(Err(error)), ClientStream::Local { .. }) if !this.has_spoken => {
                Poll::Ready(Err(ended_silently(&error)))
            }
            (Poll::Ready(Ok(())), ClientStream::Local { .. }) if !this.has_spoken && room > 0 => {
                Poll::Ready(Err(ended_silently(&io::ErrorKind::UnexpectedEof.into())))
            }
            (read, _) => read,
        }
    }
}

impl Write for ReplicaConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = on_stream!(this, stream => stream.poll_write(cx, bytes));
        written.map(|it| this.written(it))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.get_mut(), stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.get_mut(), stream => stream.poll_shutdown(cx))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            ClientStream::Plain { stream } => stream.is_write_vectored(),
            ClientStream::Encrypted { stream } => stream.is_write_vectored(),
            ClientStream::Local { stream } => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = on_stream!(this, stream => stream.poll_write_vectored(cx, parts));
        written.map(|it| this.written(it))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use flow_core::{Code, Deadline};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;
    use crate::replica::{endpoint, within};
    use crate::tls::TlsOptions;

    async fn try_read(connection: &mut ReplicaConnection, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = hyper::rt::ReadBuf::new(buffer);
        poll_fn(|cx| Pin::new(&mut *connection).poll_read(cx, buffer.unfilled())).await?;
        Ok(buffer.filled().len())
    }

    async fn read(connection: &mut ReplicaConnection, buffer: &mut [u8]) -> usize {
        try_read(connection, buffer).await.unwrap()
    }

    async fn write(connection: &mut ReplicaConnection, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut *connection).poll_write(cx, bytes)).await
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_is_lost_when_nothing_is_acknowledged_for_some_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let mut connector = Connector::new(None, PeerSpoke::default());
        let connection = connector.call(uri).await.unwrap();
        let ClientStream::Plain { stream } = connection.stream else {
            panic!("it is not encrypted");
        };
        let timeout = rustix::net::sockopt::tcp_user_timeout(stream.inner()).unwrap();
        let timeout = Duration::from_millis(timeout.into());
        assert_eq!(timeout, crate::limits::TCP_UNACKNOWLEDGED_MAX);
    }

    #[tokio::test]
    async fn a_request_did_not_run_whose_connection_is_not_made_in_time() {
        // It accepts connections, and answers no TLS handshake.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("https://{}", listener.local_addr().unwrap());
        let tls = ClientTls::load(TlsOptions::default()).unwrap();
        let connector = Connector::new(Some(tls), PeerSpoke::default());
        let connector = connector.within(Duration::from_millis(50));
        let channel = endpoint(&uri)
            .unwrap()
            .connect_with_connector_lazy(connector);
        let mut client = HealthClient::new(channel);
        let call = client.check(HealthCheckRequest::default());
        let error = within(Deadline::NEVER, call).await.unwrap_err();
        assert_eq!(error.failure.code(), Code::Unavailable);
        let message = error.failure.message();
        assert!(
            message.starts_with("no connection within 50ms"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_request_did_not_run_whose_connection_was_never_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = format!("unix:{}", path.display());
        let connect = || async {
            let mut connector = Connector::new(None, PeerSpoke::default()).to(&address);
            connector.call(Uri::from_static("/")).await.unwrap()
        };
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let connector = Connector::new(None, PeerSpoke::default()).to(&address);
        let channel = endpoint(&address)
            .unwrap()
            .connect_with_connector_lazy(connector);
        let mut calls = JoinSet::new();
        calls.spawn(async move {
            let mut client = HealthClient::new(channel);
            let call = client.check(HealthCheckRequest::default());
            within(Deadline::NEVER, call).await
        });
        // Its request is written meanwhile.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let (mut reading, mut writing) = (connect().await, connect().await);
        drop(listener);
        let error = try_read(&mut reading, &mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = write(&mut writing, b"hello").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = calls.join_next().await.unwrap().unwrap().unwrap_err();
        let message = error.failure.message();
        assert!(
            message.contains("before it answered on the connection"),
            "{message}"
        );
        assert_eq!(error.failure.code(), Code::Unavailable);
    }

    #[tokio::test]
    async fn a_request_may_have_run_once_the_process_has_sent_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = format!("unix:{}", path.display());
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let mut connector = Connector::new(None, PeerSpoke::default()).to(&address);
        let mut connection = connector.call(Uri::from_static("/")).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(b"hello").await.unwrap();
        write(&mut connection, b"request").await.unwrap();
        drop(server);
        // What was sent before is not lost.
        let error = write(&mut connection, b"more").await.unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(read(&mut connection, &mut [0; 8]).await, 5);
        let error = try_read(&mut connection, &mut [0; 8]).await.unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_unix_socket_is_reached_however_long_its_path_is() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("deep".repeat(40));
        std::fs::create_dir(&deep).unwrap();
        // A link of a few bytes, through which the socket is created.
        let link = root.path().join("l");
        std::os::unix::fs::symlink(&deep, &link).unwrap();
        let listener = tokio::net::UnixListener::bind(link.join("a.sock")).unwrap();
        for path in [link.join("a.sock"), deep.join("a.sock")] {
            for before in ["unix:", "unix://"] {
                let address = format!("{before}{}", path.display());
                let mut connector = Connector::new(None, PeerSpoke::default()).to(&address);
                let mut connection = connector.call(Uri::from_static("/")).await.unwrap();
                let (mut server, _) = listener.accept().await.unwrap();
                server.write_all(b"hello").await.unwrap();
                assert_eq!(read(&mut connection, &mut [0; 8]).await, 5, "{address}");
            }
        }
    }

    #[tokio::test]
    async fn a_peer_has_spoken_when_its_first_bytes_arrive_and_not_when_it_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let peer_spoke = PeerSpoke::default();
        let mut connector = Connector::new(None, peer_spoke.clone());

        let mut connection = connector.call(uri.clone()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        assert!(!peer_spoke.get());
        server.write_all(b"hello").await.unwrap();
        let mut text = [0; 3];
        assert_eq!(read(&mut connection, &mut text).await, 3);
        assert_eq!(&text, b"hel");
        assert!(peer_spoke.get());
        assert_eq!(read(&mut connection, &mut text).await, 2);
        assert_eq!(&text[..2], b"lo");

        let mut silent = connector.call(uri).await.unwrap();
        drop(listener.accept().await.unwrap());
        assert_eq!(read(&mut silent, &mut text).await, 0);
        assert!(!peer_spoke.get());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_tcp_connection_that_takes_too_long_does_not_read_like_a_deadline() {
        use crate::replica::silent_address::SilentAddress;

        let silent = SilentAddress::new().await;
        let limit = Duration::from_millis(50);
        let connector = Connector::new(None, PeerSpoke::default());
        let uri = format!("http://{}", silent.address).parse().unwrap();
        let error = connector
            .with_tcp_within(limit)
            .call(uri)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "no connection within 50ms");
    }
}
