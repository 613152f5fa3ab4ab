//! The body of a request, whose bytes count in a budget while they are read.
//!
//! In a gRPC call, bytes count from the first to the last of each message. A message that is complete is decoded at once,
//! and counts where it is kept. The body of any other request counts as a whole. The first message of a call, or a body,
//! begins only while the budget has room; further messages are read when the call asks for them. One that grows while
//! there is no room ends the request, and so does one that arrives too slowly.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::Status;

use crate::byte_budget::{ByteBudget, HeldBytes};
use crate::connection::BoxError;
use crate::grpc::slow_sender::SlowSender;

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX_LEN: usize = 5;

/// A request's body that counts its bytes.
pub(crate) struct RequestBody {
    body: Incoming,
    content: Content,
    slow: SlowSender,
    budget: Option<Counted>,
}

struct Counted {
    budget: ByteBudget,
    held: HeldBytes,
    has_begun: bool,
    /// Set while the first message waits for room.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// What is in a body.
enum Content {
    /// A sequence of gRPC messages.
    Messages(Message),
    /// Anything else, of which this many bytes were read.
    Whole(usize),
}

impl Content {
    /// Bytes that were read and not yet given away.
    fn kept(&self) -> usize {
        match self {
            Self::Messages(message) => message.begun(),
            Self::Whole(read) => *read,
        }
    }

    /// Bytes that were read of what is not complete; `None` between two messages.
    fn awaited(&self) -> Option<usize> {
        match self {
            Self::Messages(message) => Some(message.begun()).filter(|begun| *begun > 0),
            Self::Whole(read) => Some(*read),
        }
    }

    fn read(&mut self, data: &[u8]) {
        match self {
            Self::Messages(message) => message.read(data),
            Self::Whole(read) => *read += data.len(),
        }
    }
}

impl RequestBody {
    /// The body of a gRPC call.
    pub(crate) fn of_grpc(body: Incoming, budget: Option<ByteBudget>) -> Self {
        Self::new(body, budget, Content::Messages(Message::default()))
    }

    /// The body of any other request.
    pub(crate) fn of_http(body: Incoming, budget: Option<ByteBudget>) -> Self {
        Self::new(body, budget, Content::Whole(0))
    }

    fn new(body: Incoming, budget: Option<ByteBudget>, content: Content) -> Self {
        let budget = budget.map(|budget| Counted {
            held: budget.hold(0),
            budget,
            has_begun: false,
            room: None,
        });
        Self {
            body,
            content,
            slow: SlowSender::default(),
            budget,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(counted) = &mut this.budget {
            // What was read before is decoded, except for the part of the last message.
            counted.held.set(this.content.kept());
            std::task::ready!(counted.poll_room(context));
        }
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            return match this.content.awaited() {
                Some(read) => this
                    .slow
                    .poll_waiting(read, context)
                    .map(|slow| Some(Err(slow.into()))),
                None => Poll::Pending,
            };
        };
        let frame = frame.map(|frame| frame.map_err(BoxError::from));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.content.read(data);
            this.slow.arrived(this.content.kept() > 0);
            if let Some(counted) = &mut this.budget {
                counted.held.set(this.content.kept().max(data.len()));
                if !counted.budget.may_grow() {
                    return Poll::Ready(Some(Err(out_of_memory().into())));
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Counted {
    /// Ready once the first message may begin.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.has_begun && (self.room.is_some() || !self.budget.has_room()) {
            let room = self.room.get_or_insert_with(|| {
                let budget = self.budget.clone();
                Box::pin(async move { budget.room().await })
            });
            std::task::ready!(room.as_mut().poll(context));
            self.room = None;
        }
        self.has_begun = true;
        Poll::Ready(())
    }
}

fn out_of_memory() -> Status {
    Status::resource_exhausted(
        "the server holds as many bytes of requests and replies as it may; try again later",
    )
}

/// Where in a sequence of messages the bytes end that have been read.
#[derive(Debug, Default)]
struct Message {
    prefix: [u8; PREFIX_LEN],
    /// Bytes of the prefix that have been read.
    prefix_len: usize,
    /// Bytes of the message that have been read, and that have not.
    read: usize,
    missing: usize,
}

impl Message {
    /// Bytes of the message that has begun; none if the last one is complete.
    fn begun(&self) -> usize {
        self.prefix_len + self.read
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.prefix_len < PREFIX_LEN {
                self.prefix[self.prefix_len] = bytes[0];
                self.prefix_len += 1;
                bytes = &bytes[1..];
                if self.prefix_len == PREFIX_LEN {
                    let [_, length @ ..] = self.prefix;
                    self.missing = u32::from_be_bytes(length) as usize;
                }
            } else {
                let taken = self.missing.min(bytes.len());
                self.read += taken;
                self.missing -= taken;
                bytes = &bytes[taken..];
            }
            if self.prefix_len == PREFIX_LEN && self.missing == 0 {
                *self = Self::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let mut bytes = Vec::new();
        for len in [0u8, 3, 0, 200] {
            bytes.extend([0, 0, 0, 0, len]);
            bytes.extend(vec![b'x'; usize::from(len)]);
        }
        for step in 1..bytes.len() {
            let mut message = Message::default();
            for part in bytes.chunks(step) {
                message.read(part);
            }
            assert_eq!(message.begun(), 0, "in steps of {step}");
        }
        let mut message = Message::default();
        message.read(&bytes[..bytes.len() - 1]);
        assert_eq!(message.begun(), PREFIX_LEN + 199);
    }
}
