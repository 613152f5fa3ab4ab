//! The bytes of a WebSocket connection whose messages may be compressed.
//!
//! `tungstenite` does not support compression. So the frames of a client are decompressed before it reads them, and its
//! own are compressed after it has written them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use flow_net::{ByteBudget, ConnectionHandle, HeldBytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::deflate::{self, ServerFrames};
use super::extension::Deflate;
use super::inflate::ClientFrames;

/// Bytes that are read from the connection at once.
const READ_MAX: usize = 4 << 10;

/// Bytes that are decompressed or compressed before other connections of the thread have their turn.
const TURN_MAX: usize = 256 << 10;

/// A compressed byte counts as this many of them, because it takes time even if it contains nothing.
const COMPRESSED_COST: usize = 16;

/// How the messages of a connection are compressed, and what limits them.
#[derive(Debug)]
pub(super) struct CompressionOptions {
    pub(super) deflate: Deflate,
    /// Most bytes of a compressed message, before and after decompression.
    pub(super) len_max: usize,
    /// Counts what is decompressed.
    pub(super) connection: Option<ConnectionHandle>,
    /// Counts what the compressor takes.
    pub(super) budget: Option<ByteBudget>,
}

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
    /// The memory of what is being compressed and sent.
    held: Option<HeldBytes>,
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
    /// A connection whose messages are compressed if there are options for it.
    pub(super) fn new(io: S, compression: Option<CompressionOptions>) -> Self {
        let compression = compression.map(|options| {
            Box::new(Compression {
                connection: options.connection,
                client: ClientFrames::new(options.len_max),
                received: Pending::default(),
                frames: Pending::default(),
                server: ServerFrames::new(options.deflate),
                to_send: Pending::default(),
                held: options.budget.map(|budget| budget.hold(0)),
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
            .step(self.received.rest(), &mut self.frames.bytes)
            .map_err(io::Error::other)?;
        if step.taken > 0 {
            self.received.use_up(step.taken);
        }
        self.done += step.memory + COMPRESSED_COST * step.taken;
        match &self.connection {
            Some(connection) if step.memory > 0 => connection.count_more(step.memory),
            _ => Ok(()),
        }
    }

    /// Compresses some of what is to be sent. Returns how many bytes it took.
    fn compress(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.len().min(TURN_MAX);
        let mut taken = 0;
        while taken < end && self.to_send.bytes.len() < TURN_MAX {
            let rest = &bytes[taken..end];
            taken += self.server.step(rest, &mut self.to_send.bytes)?;
        }
        self.done += taken;
        self.count_memory();
        Ok(taken)
    }

    /// Counts the memory of what is being compressed and sent.
    fn count_memory(&mut self) {
        let is_compressing = self.server.is_compressing();
        let compressor = if is_compressing { deflate::MEMORY } else { 0 };
        if let Some(held) = &mut self.held {
            held.set(compressor + self.to_send.bytes.len());
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
        it.count_memory();
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
        let taken = it.compress(bytes)?;
        // The writer does not flush in all cases.
        if let Poll::Ready(Err(error)) = this.poll_send(context) {
            return Poll::Ready(Err(error));
        }
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
