//! One call over HTTP/2: sends the request while it waits for the reply.
//!
//! hyper does the same with a queue and a task in front of the connection, and one more task for each request. Here the task of
//! the caller does it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use tonic::ConnectError;
use tonic::body::Body;

use crate::BoxError;

/// A call that is in progress. Dropping it resets its stream.
#[derive(Debug)]
pub(super) struct Http2Call {
    response: ResponseFuture,
    /// `None` when all is sent.
    rest: Option<RequestRest>,
}

/// What is not yet sent of the body of a request.
#[derive(Debug)]
struct RequestRest {
    body: Body,
    stream: SendStream<Bytes>,
    /// It waits for room in the windows of the replica.
    chunk: Option<Bytes>,
}

/// How sending ends before all is sent.
enum SendError {
    /// The replica, or the connection, has ended the stream. The reply says why.
    StreamEnded,
    /// The body cannot be made.
    Body(BoxError),
}

/// The body of a reply.
struct ReceivedBody {
    stream: RecvStream,
    /// A replica may begin its reply before it has all of the request.
    rest: Option<RequestRest>,
}

impl Http2Call {
    /// Sends the head of a request. If that fails, the replica knows nothing of the request.
    pub(super) fn begin(
        sender: &mut SendRequest<Bytes>,
        request: Request<Body>,
    ) -> Result<Self, ConnectError> {
        let (head, body) = request.into_parts();
        let has_ended = body.is_end_stream();
        let sent = sender.send_request(Request::from_parts(head, ()), has_ended);
        let (response, stream) = sent.map_err(|error| ConnectError(cause(error)))?;
        let rest = RequestRest {
            body,
            stream,
            chunk: None,
        };
        Ok(Self {
            response,
            rest: Some(rest).filter(|_| !has_ended),
        })
    }
}

impl Future for Http2Call {
    type Output = Result<Response<Body>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll_send(&mut self.rest, context)?;
        let response = ready!(Pin::new(&mut self.response).poll(context)).map_err(cause)?;
        let rest = self.rest.take();
        Poll::Ready(Ok(
            response.map(|stream| Body::new(ReceivedBody { stream, rest }))
        ))
    }
}

/// Sends as much as there is room for. Fails if the body cannot be made.
fn poll_send(rest: &mut Option<RequestRest>, context: &mut Context<'_>) -> Result<(), BoxError> {
    let Some(sending) = rest else { return Ok(()) };
    match sending.poll(context) {
        Poll::Pending => return Ok(()),
        Poll::Ready(Ok(()) | Err(SendError::StreamEnded)) => *rest = None,
        Poll::Ready(Err(SendError::Body(error))) => {
            sending.stream.send_reset(Reason::INTERNAL_ERROR);
            *rest = None;
            return Err(error);
        }
    }
    Ok(())
}

impl RequestRest {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        loop {
            let Some(chunk) = self.chunk.take() else {
                match ready!(self.poll_next(context))? {
                    Some(chunk) => self.wait_for_room(chunk),
                    None => return Poll::Ready(self.send(Bytes::new(), true)),
                }
                continue;
            };
            if self.poll_room(context)?.is_pending() {
                self.chunk = Some(chunk);
                return Poll::Pending;
            }
            // The end of the body is sent with the last chunk, and not in a frame of its own.
            match self.poll_next(context)? {
                Poll::Ready(None) => return Poll::Ready(self.send(chunk, true)),
                Poll::Ready(Some(next)) => {
                    self.send(chunk, false)?;
                    self.wait_for_room(next);
                }
                Poll::Pending => {
                    self.send(chunk, false)?;
                    return Poll::Pending;
                }
            }
        }
    }

    /// The next chunk of the body that is not empty; `None` at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SendError>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            let Some(frame) = frame.transpose().map_err(SendError::of_body)? else {
                return Poll::Ready(Ok(None));
            };
            // A gRPC request has no trailers.
            match frame.into_data() {
                Ok(chunk) if !chunk.is_empty() => return Poll::Ready(Ok(Some(chunk))),
                _ => {}
            }
        }
    }

    /// Asks for room for one byte. h2 takes the whole chunk then, and asks for the room that the rest of it needs.
    fn wait_for_room(&mut self, chunk: Bytes) {
        self.stream.reserve_capacity(1);
        self.chunk = Some(chunk);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, SendError> {
        while self.stream.capacity() == 0 {
            match self.stream.poll_capacity(context) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None | Some(Err(_))) => return Err(SendError::StreamEnded),
            }
        }
        Ok(Poll::Ready(()))
    }

    fn send(&mut self, chunk: Bytes, is_last: bool) -> Result<(), SendError> {
        let sent = self.stream.send_data(chunk, is_last);
        sent.map_err(|_inactive| SendError::StreamEnded)
    }
}

impl SendError {
    fn of_body(status: tonic::Status) -> Self {
        Self::Body(status.into())
    }
}

impl HttpBody for ReceivedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        poll_send(&mut self.rest, context)?;
        let received = match ready!(self.stream.poll_data(context)) {
            Some(Ok(chunk)) => {
                // The replica may send as much again.
                let released = self.stream.flow_control().release_capacity(chunk.len());
                released.map(|()| Some(Frame::data(chunk)))
            }
            Some(Err(error)) => Err(error),
            None => {
                let trailers = ready!(self.stream.poll_trailers(context));
                trailers.map(|it| it.map(Frame::trailers))
            }
        };
        Poll::Ready(match received {
            Ok(frame) => frame.map(Ok),
            // The replica needs no more of the request, or has sent all that it will send.
            Err(error) if is_end(&error) => None,
            Err(error) => Some(Err(cause(error))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// Whether a stream was reset in a way that is an end, not a failure.
fn is_end(error: &h2::Error) -> bool {
    matches!(error.reason(), Some(Reason::NO_ERROR | Reason::CANCEL))
}

/// The error of the connection's stream, if that is the cause. h2 does not name it as its source.
fn cause(error: h2::Error) -> BoxError {
    if !error.is_io() {
        return error.into();
    }
    match error.into_io() {
        Some(error) => error.into(),
        None => "the connection failed".into(),
    }
}

#[cfg(test)]
mod tests;
