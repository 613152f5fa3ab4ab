//! The body of a reply, which counts in its connection as a request in progress until it is written, with its bytes.
//!
//! hyper gives h2 a whole chunk as soon as the client has room for its first byte, and then asks for the next one. What is
//! left of the chunk stays in h2 until the client reads on. So bytes count until h2 drops them, and not only until the next
//! chunk is asked for.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::byte_budget::HeldBytes;
use crate::open_connections::OpenConnection;

/// A request of a connection, from its first byte to the last of its reply.
#[derive(Debug)]
pub struct OpenRequest(Arc<OpenConnection>);

impl OpenRequest {
    pub(crate) fn begin(connection: &Arc<OpenConnection>) -> Self {
        connection.begin_request();
        Self(connection.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

pin_project! {
    /// A reply that is being made.
    pub(crate) struct ReplyFuture<F> {
        #[pin]
        reply: F,
        request: Option<OpenRequest>,
    }
}

impl<F> ReplyFuture<F> {
    pub(crate) fn new(reply: F, request: OpenRequest) -> Self {
        Self {
            reply,
            request: Some(request),
        }
    }
}

impl<F, B> Future for ReplyFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<ReplyBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reply = ready!(this.reply.poll(context));
        let request = this.request.take();
        Poll::Ready(reply.map(|reply| reply.map(|body| ReplyBody { body, request })))
    }
}

pin_project! {
    /// The body of a reply.
    pub(crate) struct ReplyBody<B> {
        #[pin]
        body: B,
        request: Option<OpenRequest>,
    }
}

impl<B: Body<Data = Bytes>> Body for ReplyBody<B> {
    type Data = ReplyBytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<ReplyBytes>, B::Error>>> {
        let this = self.project();
        let request = this.request.as_ref();
        let count = |bytes| ReplyBytes::new(bytes, request);
        let frame = ready!(this.body.poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(count))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of a reply. It counts in the budget of its connection, and keeps its request open, until the connection drops
/// it, which it does when the last byte is written.
#[derive(Debug)]
pub(crate) struct ReplyBytes {
    bytes: Bytes,
    _held: Option<HeldBytes>,
    _request: Option<OpenRequest>,
}

impl ReplyBytes {
    fn new(bytes: Bytes, request: Option<&OpenRequest>) -> Self {
        let budget = request.and_then(|it| it.0.budget.as_ref());
        Self {
            _held: budget.map(|budget| budget.hold(bytes.len())),
            _request: request.map(|it| OpenRequest::begin(&it.0)),
            bytes,
        }
    }
}

impl Buf for ReplyBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests;
