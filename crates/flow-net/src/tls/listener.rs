//! A listener whose connections are encrypted, if it has a certificate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::server::ServerTls;
use super::stream::ServerStream;
use crate::{Accept, Listener};

/// A listener whose connections are encrypted, if it has a certificate.
#[derive(Debug)]
pub struct TlsListener {
    tcp: Listener,
    tls: Option<Arc<ServerTls>>,
}

impl TlsListener {
    /// Encrypts the connections of a listener, or leaves them as they are.
    #[must_use]
    pub fn new(tcp: Listener, tls: Option<Arc<ServerTls>>) -> Self {
        Self { tcp, tls }
    }
}

impl Accept for TlsListener {
    type Stream = ServerStream;

    async fn accept(&mut self) -> io::Result<(ServerStream, Option<SocketAddr>)> {
        let (stream, from) = self.tcp.accept().await?;
        let stream = match &self.tls {
            None => ServerStream::plain(stream),
            Some(tls) => ServerStream::encrypted(stream, tls.acceptor()),
        };
        Ok((stream, from))
    }

    fn move_here(stream: ServerStream) -> io::Result<ServerStream> {
        stream.move_here()
    }
}
