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
pub(crate) const FRAME_LEN_MAX: u32 = 256 << 10;

/// HTTP/2 allows no smaller limit on frames.
const FRAME_LEN_MIN: u32 = 16 << 10;

/// Bytes of HTTP/1 that are read before they are taken: those of a head, and a part of a body.
const HTTP1_BUFFER: usize = 64 << 10;

/// Requests of one connection in progress; the client delays further ones.
const CONNECTION_STREAMS_MAX: u32 = 4096;

/// Bytes of the headers of one request, as HTTP/2 counts them. Those of a gRPC call have some hundred.
const HEADER_LIST_MAX: u32 = 16 << 10;

/// Requests that a client may cancel before the server has looked at them; the connection of one that cancels more is
/// closed. A gateway cancels many at once when its own clients leave, and all of its requests are on one connection.
const EARLY_RESETS_MAX: usize = CONNECTION_STREAMS_MAX as usize;

/// Time in which a new connection sends the first bytes of HTTP.
const PREFACE_MAX: Duration = Duration::from_secs(10);

/// Time without requests after which a connection is closed. Clients connect again for their next request.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// Time in which an HTTP/1 client must send the head of its request.
const HEADER_READ_MAX: Duration = Duration::from_secs(30);

/// Silence after which the kernel checks whether the peer of a TCP connection still exists.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// How long sent data may stay unacknowledged, or the peer's receive buffer full, before the connection counts as lost: the peer is off
/// or unreachable. Linux's default is about 15 minutes; gRPC's libraries use this value.
#[cfg(target_os = "linux")]
pub(crate) const TCP_UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// Time between such checks, and the number of them without an answer after which the connection is closed. The
/// kernel's own values add up to 11 minutes.
pub(crate) const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
pub(crate) const TCP_KEEPALIVE_RETRIES: u32 = 4;

/// Default for the largest message after decompression. A kilobyte on the wire becomes a megabyte, so the limit is lower
/// than for messages that are sent as they are.
const DECOMPRESSED_LEN_MAX: usize = 64 << 20;

/// Limits on messages, for both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message that is read or written, in bytes.
    pub message_len_max: usize,
    /// Largest message that is read compressed, in bytes after decompression.
    pub decompressed_len_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_len_max: MESSAGE_LEN_MAX,
            decompressed_len_max: DECOMPRESSED_LEN_MAX,
        }
    }
}

/// Limits on the connections that a [`Server`](crate::Server) accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Open connections; `None` for any number. Further ones wait in the kernel's queue until idle ones are closed.
    pub connections_max: Option<NonZeroUsize>,
    /// Open connections from one address; `None` for any number. Further ones are closed at once.
    pub per_address_max: Option<NonZeroUsize>,
    /// Time in which a connection sends its first bytes; `None` for no limit.
    pub preface_max: Option<Duration>,
    /// Time without requests after which a connection is closed; `None` for no limit.
    pub idle_max: Option<Duration>,
    /// Age at which a connection is closed, a tenth more or less, after the requests in progress; `None` for no limit.
    pub age_max: Option<Duration>,
    /// Time after which a connection is closed, whatever it is doing; `None` for no limit.
    pub lifetime_max: Option<Duration>,
    /// Whether an HTTP/1 connection stays open after its first response.
    pub http1_keep_alive: bool,
    /// Requests of one HTTP/2 connection in progress.
    pub streams_max: u32,
    /// Streams of one HTTP/2 connection that may end for an error of the client, over its whole life; `None` for any
    /// number. A frame that arrives after its stream was closed is such an error, so peers that are trusted have no limit.
    pub stream_errors_max: Option<usize>,
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
            per_address_max: None,
            preface_max: Some(PREFACE_MAX),
            idle_max: Some(IDLE_MAX),
            age_max: None,
            lifetime_max: None,
            http1_keep_alive: true,
            streams_max: CONNECTION_STREAMS_MAX,
            stream_errors_max: None,
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            frame_len_max: FRAME_LEN_MAX,
        }
    }
}

impl ConnectionLimits {
    /// The same limits for a connection that may have fewer bytes in flight. A frame of which a part has arrived is not longer
    /// than that either.
    pub(crate) fn with_window(self, connection_window: u32) -> Self {
        let frame_len_max = connection_window.max(FRAME_LEN_MIN);
        Self {
            stream_window: self.stream_window.min(connection_window),
            connection_window,
            frame_len_max: self.frame_len_max.min(frame_len_max),
            ..self
        }
    }

    /// A connection builder with these limits.
    pub(crate) fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_MAX)
            .max_buf_size(HTTP1_BUFFER)
            .keep_alive(self.http1_keep_alive);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window)
            .max_frame_size(self.frame_len_max)
            .max_concurrent_streams(self.streams_max)
            .max_header_list_size(HEADER_LIST_MAX)
            .max_pending_accept_reset_streams(EARLY_RESETS_MAX)
            .max_local_error_reset_streams(self.stream_errors_max)
            // Stock clients close a connection that pings them too often.
            .keep_alive_interval(None);
        builder
    }
}
