//! The body of a request, whose bytes count in a budget while they are read.
//!
//! In a gRPC call, bytes count from the first to the last of each message. A message that is complete is decoded at once,
//! and counts where it is kept. The body of any other request counts as a whole. The first message of a call, or a body,
//! begins only while the budget has room; further messages are read when the call asks for them. One that grows while
//! there is no room ends the request, and so does one that arrives too slowly, or a call without a first message.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::Status;

use crate::byte_budget::{ByteBudget, HeldBytes};
use crate::connection::BoxError;
use crate::grpc::large_message::{LARGE, LargeMessage};
use crate::grpc::message::PREFIX_LEN;
use crate::grpc::slow_sender::SlowSender;

/// Bytes of a question for the health of the process. It is answered whatever the budget says.
const HEALTH_LEN_MAX: usize = 1 << 10;

/// A request's body that counts its bytes.
pub(crate) struct RequestBody<B = Incoming> {
    body: B,
    content: Content,
    slow: SlowSender,
    budget: Option<Counted>,
    large: LargeMessage,
    /// Bytes that may still arrive; `None` for any number.
    left: Option<usize>,
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

    /// The memory that they take. The parts of a body are copied to one buffer when all of them have arrived.
    fn memory(&self) -> usize {
        match self {
            Self::Messages(message) => message.begun(),
            Self::Whole(read) => 2 * read,
        }
    }

    /// Bytes that were read of what is not complete; `None` between two messages.
    fn awaited(&self) -> Option<usize> {
        match self {
            Self::Messages(message) => Some(message.begun()).filter(|begun| *begun > 0),
            Self::Whole(read) => Some(*read),
        }
    }

    /// Whether it is a call of which nothing has arrived.
    fn is_silent(&self) -> bool {
        matches!(self, Self::Messages(message) if !message.has_arrived)
    }

    /// Bytes that were read of a large message that is not complete.
    fn begun_large(&self) -> usize {
        match self {
            Self::Messages(message) if message.read + message.missing > LARGE => message.begun(),
            Self::Messages(_) | Self::Whole(_) => 0,
        }
    }

    fn read(&mut self, data: &[u8]) {
        match self {
            Self::Messages(message) => message.read(data),
            Self::Whole(read) => *read += data.len(),
        }
    }
}

impl<B> RequestBody<B> {
    /// The body of a gRPC call.
    pub(crate) fn of_grpc(body: B, budget: Option<ByteBudget>) -> Self {
        Self::new(body, budget, Content::Messages(Message::default()))
    }

    /// The body of a call that asks for the health of the process.
    pub(crate) fn of_health(body: B) -> Self {
        Self {
            left: Some(HEALTH_LEN_MAX),
            ..Self::of_grpc(body, None)
        }
    }

    /// The body of any other request.
    pub(crate) fn of_http(body: B, budget: Option<ByteBudget>) -> Self {
        Self::new(body, budget, Content::Whole(0))
    }

    fn new(body: B, budget: Option<ByteBudget>, content: Content) -> Self {
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
            large: LargeMessage::default(),
            left: None,
        }
    }

    /// Counts data that have arrived.
    fn arrived(&mut self, data: &[u8]) -> Result<(), Status> {
        let is_same = self.content.awaited().is_some();
        self.content.read(data);
        self.slow.arrived(is_same && self.content.kept() > 0);
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(data.len()).ok_or_else(too_long)?;
        }
        let Some(counted) = &mut self.budget else {
            return Ok(());
        };
        counted.held.set(self.content.memory().max(data.len()));
        match counted.budget.may_grow() {
            true => Ok(()),
            false => Err(out_of_memory()),
        }
    }

    /// Ready with the failure once the client has taken too long.
    fn poll_slow(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        match self.content.awaited() {
            Some(read) => self.slow.poll_waiting(read, context),
            None if self.content.is_silent() => self.slow.poll_first(context),
            None => Poll::Pending,
        }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            if let Some(frame) = this.large.pop() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if let Some(counted) = &mut this.budget {
                // What was read before is decoded, except for the part of the last message.
                counted.held.set(this.content.memory());
                ready!(counted.poll_room(context));
            }
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
                let slow = ready!(this.poll_slow(context));
                return Poll::Ready(Some(Err(slow.into())));
            };
            let frame = match frame.transpose().map_err(Into::into)? {
                Some(frame) => frame.into_data(),
                None if this.large.is_empty() => return Poll::Ready(None),
                None => {
                    this.large.end(None);
                    continue;
                }
            };
            let data = match frame {
                Ok(data) => data,
                Err(trailers) => {
                    this.large.end(Some(trailers));
                    continue;
                }
            };
            this.arrived(&data)?;
            let begun = this.content.begun_large();
            if begun == 0 && this.large.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            this.large.push(data, begun);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.large.is_empty() && self.body.is_end_stream()
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
            ready!(room.as_mut().poll(context));
            self.room = None;
        }
        self.has_begun = true;
        Poll::Ready(())
    }
}

/// The failure of a request for which there is no memory.
pub(super) fn out_of_memory() -> Status {
    Status::resource_exhausted(
        "the server holds as many bytes of requests and replies as it may; try again later",
    )
}

fn too_long() -> Status {
    let text = format!("a question for the health has at most {HEALTH_LEN_MAX} bytes");
    Status::invalid_argument(text)
}

/// Where in a sequence of messages the bytes end that have been read.
#[derive(Debug, Default)]
struct Message {
    /// Whether anything has arrived, of this message or of an earlier one.
    has_arrived: bool,
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
        self.has_arrived |= !bytes.is_empty();
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
                *self = Self {
                    has_arrived: true,
                    ..Self::default()
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::time::Duration;

    use http_body_util::{BodyExt, Full, StreamBody};
    use tokio::time::Instant;

    use super::*;

    /// A body that never says anything.
    type Silent = StreamBody<futures_util::stream::Pending<Result<Frame<Bytes>, Infallible>>>;

    fn silent() -> Silent {
        StreamBody::new(futures_util::stream::pending())
    }

    async fn failure<B>(mut body: RequestBody<B>) -> Status
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        *frame.unwrap().unwrap_err().downcast().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_message_ends_after_two_minutes() {
        let begun = Instant::now();
        let late = failure(RequestBody::of_grpc(silent(), None)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(120));
        let expected = "no message within 120 s after the call began; send the first one sooner";
        assert_eq!(late.message(), expected);
    }

    #[tokio::test]
    async fn a_question_for_the_health_is_read_when_there_is_no_room_and_must_be_short() {
        let question = |len| RequestBody::of_health(Full::new(Bytes::from(vec![0; len])));
        let read = question(HEALTH_LEN_MAX).collect().await.unwrap();
        assert_eq!(read.to_bytes().len(), HEALTH_LEN_MAX);
        let long = failure(question(HEALTH_LEN_MAX + 1)).await;
        assert_eq!(long.code(), tonic::Code::InvalidArgument);
    }

    #[tokio::test]
    async fn a_large_message_arrives_as_it_was_sent() {
        let mut sent = vec![0; PREFIX_LEN + LARGE + 1];
        sent[1..PREFIX_LEN].copy_from_slice(&(LARGE as u32 + 1).to_be_bytes());
        sent.extend([0, 0, 0, 0, 1, 7]);
        let parts = sent.chunks(1 << 20);
        let parts: Vec<Result<_, Infallible>> = parts
            .map(|it| Ok(Frame::data(Bytes::copy_from_slice(it))))
            .collect();
        let body = StreamBody::new(futures_util::stream::iter(parts));
        let read = RequestBody::of_grpc(body, None).collect().await.unwrap();
        assert!(read.to_bytes() == sent);
    }

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
