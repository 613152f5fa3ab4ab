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
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::byte_budget::HeldBytes;
use crate::open_connections::OpenConnection;

/// Memory that a request takes besides its bytes: a stream in h2, a task, the futures that answer it.
const REQUEST_COST: usize = 8 << 10;

/// Memory that a header takes besides its bytes.
const HEADER_COST: usize = 100;

/// A request of a connection, from its first byte to the last of its reply.
#[derive(Debug)]
pub struct OpenRequest {
    connection: Arc<OpenConnection>,
    /// What its head takes.
    _held: Option<HeldBytes>,
}

impl OpenRequest {
    pub(crate) fn begin(connection: &Arc<OpenConnection>) -> Self {
        Self::new(connection, None)
    }

    /// A request that has this head, which counts in the budget of the connection.
    pub(crate) fn with_head<B>(connection: &Arc<OpenConnection>, head: &Request<B>) -> Self {
        let budget = connection.budget.as_ref();
        Self::new(connection, budget.map(|it| it.hold(head_cost(head))))
    }

    fn new(connection: &Arc<OpenConnection>, held: Option<HeldBytes>) -> Self {
        connection.begin_request();
        Self {
            connection: connection.clone(),
            _held: held,
        }
    }
}

/// The memory that a request without its body takes.
fn head_cost<B>(request: &Request<B>) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER_COST);
    REQUEST_COST + request.uri().path().len() + headers.sum::<usize>()
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.connection.end_request();
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
        let budget = request.and_then(|it| it.connection.budget.as_ref());
        Self {
            _held: budget.map(|budget| budget.hold(bytes.len())),
            _request: request.map(|it| OpenRequest::begin(&it.connection)),
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
