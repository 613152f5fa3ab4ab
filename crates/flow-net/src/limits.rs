//! The bounds of a connection, each with its reason.

/// Largest message that is read or written unless told otherwise.
///
/// Stock sides set no limit, and batches of images run to hundreds of megabytes; but one sender must not
/// be able to take all memory with one message.
pub const MESSAGE_LEN_MAX: usize = 512 << 20;

/// Bytes a stream may have under way before its reader has taken them. HTTP/2's default of 64 KiB makes
/// a message of some megabytes wait for a round trip per window.
pub(crate) const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all streams of one connection together.
pub(crate) const CONNECTION_WINDOW: u32 = 16 << 20;

/// Largest HTTP/2 frame: fewer frames for vectors, still small enough to interleave requests.
pub(crate) const FRAME_LEN_MAX: u32 = 256 << 10;

/// Requests of one connection that may be under way; more wait at the sender.
pub(crate) const CONNECTION_STREAMS_MAX: u32 = 4096;

/// What one end of a connection accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message read or written, in bytes.
    pub message_len_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_len_max: MESSAGE_LEN_MAX,
        }
    }
}
