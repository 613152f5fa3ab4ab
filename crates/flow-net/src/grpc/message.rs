//! The body of a request or a reply that is one message.
//!
//! tonic makes a stream of each message, in boxes and with buffers that grow. [`SingleDataServer`](super::SingleDataServer) and
//! the calls of replicas use this instead, because they have one message.

use std::convert::Infallible;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use prost::Message;
use tonic::Status;
use tonic::body::Body;

/// Bytes before each message: whether it is compressed, and its length.
pub(super) const PREFIX_LEN: usize = 5;

/// A message with its prefix.
///
/// # Errors
///
/// If the message has more than `len_max` bytes.
pub(crate) fn encode(message: &impl Message, len_max: usize) -> Result<Bytes, Status> {
    let len = message.encoded_len();
    let prefix = u32::try_from(len).ok().filter(|_| len <= len_max);
    let prefix = prefix.ok_or_else(|| too_long("encoded", len, len_max))?;
    let mut bytes = Vec::with_capacity(PREFIX_LEN + len);
    bytes.put_u8(0);
    bytes.put_u32(prefix);
    let encoded = message.encode(&mut bytes);
    encoded.map_err(|error| Status::internal(error.to_string()))?;
    Ok(bytes.into())
}

/// A message, and the trailers that follow it.
#[derive(Debug)]
pub(crate) struct MessageBody {
    /// Empty once it is taken.
    message: Bytes,
    trailers: Option<HeaderMap>,
}

impl MessageBody {
    /// The body of a request or a reply. `message` has its prefix.
    pub(crate) fn new(message: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { message, trailers }
    }
}

/// It does not say how long it is: HTTP/2 has no use for that, and gRPC-Web sends the trailers as data.
impl HttpBody for MessageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match take(&mut self.message) {
            message if message.is_empty() => self.trailers.take().map(Frame::trailers),
            message => Some(Frame::data(message)),
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_empty() && self.trailers.is_none()
    }
}

/// What a body contained.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessage {
    /// The message without its prefix; `None` if there was none.
    pub(crate) message: Option<Bytes>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Reads a body to its end.
///
/// # Errors
///
/// If it fails, or contains anything but one message of at most `len_max` bytes that is not compressed.
pub(crate) async fn receive(mut body: Body, len_max: usize) -> Result<ReceivedMessage, Status> {
    let mut parts = MessageParts::default();
    let mut trailers = None;
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await.transpose()? else {
            break;
        };
        match frame.into_data() {
            Ok(data) => parts.push(&data, len_max)?,
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok(ReceivedMessage {
        message: parts.end()?,
        trailers,
    })
}

/// What has arrived of a message, with its prefix.
///
/// It is copied: a part of what a connection has read would keep all of that in memory.
#[derive(Debug, Default)]
struct MessageParts(Vec<u8>);

impl MessageParts {
    fn push(&mut self, data: &[u8], len_max: usize) -> Result<(), Status> {
        if self.0.is_empty() {
            self.0.reserve_exact(data.len());
        }
        self.0.extend_from_slice(data);
        let Some(len) = self.message_len()? else {
            return Ok(());
        };
        if len > len_max {
            return Err(too_long("decoded", len, len_max));
        }
        let missing = (PREFIX_LEN + len).checked_sub(self.0.len());
        let missing = missing.ok_or_else(|| {
            Status::invalid_argument("the call has one request, and more than one message came")
        })?;
        self.0.reserve_exact(missing);
        Ok(())
    }

    /// The length that the prefix says; `None` until it has arrived.
    fn message_len(&self) -> Result<Option<usize>, Status> {
        match self.0.first_chunk::<PREFIX_LEN>() {
            None => Ok(None),
            Some([0, len @ ..]) => Ok(Some(u32::from_be_bytes(*len) as usize)),
            Some([flag, ..]) => {
                let text = format!(
                    "the message begins with {flag}; one that is not compressed begins with 0, and the headers \
                     name no compression"
                );
                Err(Status::internal(text))
            }
        }
    }

    /// The message, if there is one.
    fn end(self) -> Result<Option<Bytes>, Status> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let len = self.message_len()?;
        if len.is_none_or(|len| self.0.len() < PREFIX_LEN + len) {
            return Err(Status::internal("the body ended within a message"));
        }
        Ok(Some(Bytes::from(self.0).slice(PREFIX_LEN..)))
    }
}

fn too_long(done: &str, len: usize, len_max: usize) -> Status {
    Status::out_of_range(format!(
        "Error, {done} message length too large: found {len} bytes, the limit is: {len_max} bytes"
    ))
}

#[cfg(test)]
mod tests;
