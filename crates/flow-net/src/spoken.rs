//! Knows which connections have ever said anything, so that an orderly end waits for no others.
//!
//! A connection that is told to close does so when its requests are answered, but only once its client
//! has begun to speak HTTP/2. One that was opened and left silent would hold up the end for the whole
//! grace.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// The connections that have said something and are still open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spoken(TaskTracker);

impl Spoken {
    /// A connection that has said nothing yet.
    pub(crate) fn connection(&self, io: TcpStream) -> Connection {
        let (spoken, token) = (self.clone(), None);
        Connection { io, spoken, token }
    }

    /// Returns once all that have said something are closed.
    pub(crate) async fn closed(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

/// A connection that counts from its first byte on.
#[derive(Debug)]
pub(crate) struct Connection {
    io: TcpStream,
    spoken: Spoken,
    token: Option<TaskTrackerToken>,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.io.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if self.token.is_none() && buffer.filled().len() > before {
            self.token = Some(self.spoken.0.token());
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
