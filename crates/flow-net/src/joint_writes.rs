//! Lets a connection write several messages at once.
//!
//! h2 flushes each message of 256 bytes or more by itself. So what it flushes is collected, and written when the connection has
//! been polled.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

/// Bytes that are collected. What does not fit is written at once, with what was collected before it.
const BUFFER_LEN: usize = 32 << 10;

/// Largest write that is collected, in bytes. With frames of 16 KiB, as those of vectors, copying cost as much as it saved.
const COLLECTED_MAX: usize = 8 << 10;

/// Parts of one write: the buffer, and what follows it.
const PARTS_MAX: usize = 16;

/// A stream whose writes are collected while a [`JointConnection`] is polled. At other times, as after an upgrade, it writes at once.
#[derive(Debug)]
pub(crate) struct JointStream<I>(Arc<Mutex<State<I>>>);

/// A connection that writes when it has been polled.
#[derive(Debug)]
pub(crate) struct JointConnection<I>(Arc<Mutex<State<I>>>);

#[derive(Debug)]
struct State<I> {
    stream: I,
    /// What is not yet written to the stream.
    buffer: Vec<u8>,
    /// Whether the connection is being polled.
    is_collecting: bool,
    /// Why the buffer could not be written.
    failure: Option<io::Error>,
}

/// A stream for a connection, and what polls that connection.
pub(crate) fn joint_writes<I>(stream: I) -> (JointStream<I>, JointConnection<I>) {
    let state = State {
        stream,
        buffer: Vec::new(),
        is_collecting: false,
        failure: None,
    };
    let state = Arc::new(Mutex::new(state));
    (JointStream(Arc::clone(&state)), JointConnection(state))
}

impl<I: Write + Unpin> JointConnection<I> {
    /// Polls the connection, and writes what it sends.
    pub(crate) fn poll<F: Future>(
        &self,
        connection: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        lock(&self.0).is_collecting = true;
        let polled = connection.poll(context);
        let mut state = lock(&self.0);
        state.is_collecting = false;
        if let Poll::Ready(Err(error)) = state.poll_write_buffer(context) {
            // The connection finds it when it is polled again.
            state.failure = Some(error);
            state.buffer.clear();
            context.waker().wake_by_ref();
        }
        polled
    }
}

/// A panic leaves nothing half done: the connection that panicked ends.
fn lock<I>(state: &Mutex<State<I>>) -> MutexGuard<'_, State<I>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<I: Write + Unpin> State<I> {
    /// Fails if an earlier write failed.
    fn check(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Writes all that is in the buffer.
    fn poll_write_buffer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.buffer.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.buffer);
            self.remove(ready!(written)?)?;
        }
        // A connection that becomes idle does not keep a large buffer.
        self.buffer.shrink_to(COLLECTED_MAX);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Removes what was written.
    fn remove(&mut self, written: usize) -> io::Result<()> {
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.buffer.drain(..written.min(self.buffer.len()));
        Ok(())
    }

    /// Writes the buffer and what follows it. Returns how much of the latter was written.
    fn poll_write_after_buffer(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut all = [IoSlice::new(&[]); PARTS_MAX];
            let buffer = IoSlice::new(&self.buffer);
            let in_order = Some(&buffer).into_iter().chain(parts);
            let mut count = 0;
            for (to, part) in all.iter_mut().zip(in_order.filter(|it| !it.is_empty())) {
                *to = *part;
                count += 1;
            }
            let stream = Pin::new(&mut self.stream);
            let written = ready!(stream.poll_write_vectored(context, &all[..count]))?;
            let of_parts = written.saturating_sub(self.buffer.len());
            self.remove(written)?;
            if of_parts > 0 {
                return Poll::Ready(Ok(of_parts));
            }
        }
    }
}

impl<I: Read + Write + Unpin> Read for JointStream<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        state.check()?;
        Pin::new(&mut state.stream).poll_read(context, buffer)
    }
}

impl<I: Write + Unpin> Write for JointStream<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0);
        state.check()?;
        let len: usize = parts.iter().map(|it| it.len()).sum();
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        let is_collected = len <= COLLECTED_MAX && state.buffer.len() + len <= BUFFER_LEN;
        if !state.is_collecting || !is_collected {
            return state.poll_write_after_buffer(context, parts);
        }
        for part in parts {
            state.buffer.extend_from_slice(part);
        }
        Poll::Ready(Ok(len))
    }

    /// While the connection is being polled, this only says so. The bytes are written after that.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        state.check()?;
        if state.is_collecting {
            return Poll::Ready(Ok(()));
        }
        ready!(state.poll_write_buffer(context))?;
        Pin::new(&mut state.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        state.check()?;
        ready!(state.poll_write_buffer(context))?;
        Pin::new(&mut state.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).stream.is_write_vectored()
    }
}
