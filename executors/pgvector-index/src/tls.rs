//! Encrypts connections to the database with the TLS client of `flow-net`.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use flow_net::tls::{ClientTls, TlsError, TlsOptions};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// The protocol's name in the handshake, which PostgreSQL 17 and later check.
const PROTOCOL: &[u8] = b"postgresql";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A bidirectional stream of bytes.
trait Bytes: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Bytes for S {}

/// A TLS connector that verifies the server's certificate.
#[derive(Debug, Clone)]
pub(crate) struct Tls(ClientTls);

impl Tls {
    /// Creates a connector that trusts the authorities in the file `roots`. If `roots` is `None`, it trusts Mozilla's authorities.
    pub(crate) fn load(roots: Option<PathBuf>) -> Result<Self, TlsError> {
        let options = TlsOptions {
            roots,
            ..TlsOptions::default()
        };
        ClientTls::load(options).map(|tls| Self(tls.for_protocol(PROTOCOL)))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = TlsError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, TlsError> {
        Ok(Handshake {
            tls: self.0.clone(),
            host: domain.to_owned(),
        })
    }
}

/// A TLS handshake that has not started yet.
pub(crate) struct Handshake {
    tls: ClientTls,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, BoxError>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = self.tls.connect(&self.host, socket).await?;
            Ok(Encrypted(Box::pin(stream)))
        })
    }
}

/// A TLS connection.
pub(crate) struct Encrypted(Pin<Box<dyn Bytes>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(context)
    }
}
