//! The bytes of a WebSocket connection whose messages may be compressed.
//!
//! The library for WebSockets knows no compression. So the frames of a client are decompressed before the library reads them, and
//! its own are compressed after it has written them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use flow_net::ConnectionHandle;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::deflate::ServerFrames;
use super::extension::Deflate;
use super::inflate::ClientFrames;

/// Bytes that are read from the connection at once.
const READ_MAX: usize = 4 << 10;

/// Bytes that are decompressed or compressed before other connections of the thread have their turn.
const TURN_MAX: usize = 256 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct MessageIo<S> {
    io: S,
    /// `None` if messages are not compressed.
    compression: Option<Box<Compression>>,
}

#[derive(Debug)]
struct Compression {
    connection: Option<ConnectionHandle>,
    client: ClientFrames,
    /// What is read and not yet decompressed.
    received: Pending,
    /// What is decompressed.
    frames: Pending,
    server: ServerFrames,
    /// What is compressed and not yet written.
    to_send: Pending,
    /// Bytes since other connections had their turn.
    done: usize,
}

/// Bytes of which some are used up.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    used: usize,
}

impl Pending {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// An idle connection holds no memory for what it has sent and received.
    fn use_up(&mut self, bytes: usize) {
        self.used += bytes;
        if self.used == self.bytes.len() {
            *self = Self::default();
        }
    }
}

impl<S> MessageIo<S> {
    /// A connection whose messages are compressed if the client has agreed to it. What is decompressed counts in the memory of the
    /// connection.
    pub(super) fn new(
        io: S,
        deflate: Option<Deflate>,
        connection: Option<ConnectionHandle>,
    ) -> Self {
        let compression = deflate.map(|deflate| {
            Box::new(Compression {
                connection,
                client: ClientFrames::default(),
                received: Pending::default(),
                frames: Pending::default(),
                server: ServerFrames::new(deflate),
                to_send: Pending::default(),
                done: 0,
            })
        });
        Self { io, compression }
    }
}

impl Compression {
    /// Whether others have their turn first. Then the task is woken again.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.done < TURN_MAX {
            return Poll::Ready(());
        }
        self.done = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn decompress(&mut self) -> io::Result<()> {
        let step = self
            .client
            .step(self.received.rest(), &mut self.frames.bytes)?;
        if step.taken > 0 {
            self.received.use_up(step.taken);
        }
        self.done += step.memory;
        match &self.connection {
            Some(connection) if step.memory > 0 => connection.count_more(step.memory),
            _ => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MessageIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(it) = &mut this.compression else {
            return Pin::new(&mut this.io).poll_read(context, into);
        };
        loop {
            let frames = it.frames.rest();
            if !frames.is_empty() {
                let len = frames.len().min(into.remaining());
                into.put_slice(&frames[..len]);
                it.frames.use_up(len);
                return Poll::Ready(Ok(()));
            }
            if !it.received.rest().is_empty() || it.client.has_more() {
                ready!(it.poll_turn(context));
                it.decompress()?;
                continue;
            }
            let mut bytes = [0; READ_MAX];
            let mut bytes = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.io).poll_read(context, &mut bytes))?;
            if bytes.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            it.received.bytes.extend_from_slice(bytes.filled());
        }
    }
}

impl<S: AsyncWrite + Unpin> MessageIo<S> {
    /// Writes what is compressed.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(it) = &mut self.compression else {
            return Poll::Ready(Ok(()));
        };
        while !it.to_send.rest().is_empty() {
            let sent = Pin::new(&mut self.io).poll_write(context, it.to_send.rest());
            match ready!(sent)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => it.to_send.use_up(sent),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MessageIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // What was compressed before goes first, so that it takes no more memory.
        ready!(self.poll_send(context))?;
        let this = &mut *self;
        let Some(it) = &mut this.compression else {
            return Pin::new(&mut this.io).poll_write(context, bytes);
        };
        ready!(it.poll_turn(context));
        let mut taken = 0;
        let end = bytes.len().min(TURN_MAX);
        while taken < end && it.to_send.bytes.is_empty() {
            taken += it.server.step(&bytes[taken..end], &mut it.to_send.bytes)?;
        }
        it.done += taken;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
