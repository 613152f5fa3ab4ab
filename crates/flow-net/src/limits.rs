//! Limits of a connection, each with its reason.

use std::num::NonZeroUsize;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;

/// Default for the largest message that is read or written.
///
/// Stock clients and servers set no limit, and batches of images reach hundreds of megabytes, but a
/// single message must not take all of the memory.
pub const MESSAGE_LEN_MAX: usize = 512 << 20;

/// Bytes that a stream may have in flight. With HTTP/2's default of 64 KiB, a message of several
/// megabytes waits for one round trip per 64 KiB.
pub(crate) const STREAM_WINDOW: u32 = 4 << 20;

/// Bytes that all streams of one connection together may have in flight.
pub(crate) const CONNECTION_WINDOW: u32 = 16 << 20;

/// Largest HTTP/2 frame: large enough that vectors need few frames, small enough to interleave requests.
const FRAME_LEN_MAX: u32 = 256 << 10;

/// Requests of one connection in progress; the client delays further ones.
const CONNECTION_STREAMS_MAX: u32 = 4096;

/// Time in which an HTTP/1 client must send the head of its request.
const HEADER_READ_MAX: Duration = Duration::from_secs(30);

/// Silence after which the kernel checks whether the peer of a TCP connection still exists.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Limits on messages, for both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message that is read or written, in bytes.
    pub message_len_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_len_max: MESSAGE_LEN_MAX,
        }
    }
}

/// Limits on the connections that a [`Server`](crate::Server) accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open connections; `None` for any number. Further ones wait in the kernel's queue.
    pub connections_max: Option<NonZeroUsize>,
    /// Time after which a connection is closed, whatever it is doing; `None` for no limit.
    pub lifetime_max: Option<Duration>,
    /// Whether an HTTP/1 connection stays open after its first response.
    pub http1_keep_alive: bool,
    /// Requests of one HTTP/2 connection in progress.
    pub streams_max: u32,
    /// Bytes in flight on one HTTP/2 stream.
    pub stream_window: u32,
    /// Bytes in flight on one HTTP/2 connection.
    pub connection_window: u32,
    /// Largest HTTP/2 frame, in bytes.
    pub frame_len_max: u32,
}

impl Default for ConnectionLimits {
    /// Limits for a port that serves requests.
    fn default() -> Self {
        Self {
            connections_max: None,
            lifetime_max: None,
            http1_keep_alive: false,
            streams_max: CONNECTION_STREAMS_MAX,
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            frame_len_max: FRAME_LEN_MAX,
        }
    }
}

impl ConnectionLimits {
    /// A connection builder with these limits.
    pub(crate) fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_MAX)
            .keep_alive(self.http1_keep_alive);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window)
            .max_frame_size(self.frame_len_max)
            .max_concurrent_streams(self.streams_max)
            // Counted over the whole life of a connection, so a long one would end for no new reason.
            .max_local_error_reset_streams(None)
            // Stock clients close a connection that pings them too often.
            .keep_alive_interval(None);
        builder
    }
}
