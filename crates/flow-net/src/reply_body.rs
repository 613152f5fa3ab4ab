//! The body of a reply, which counts in its connection as a request in progress until it is written, with its bytes.

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
        Poll::Ready(reply.map(|reply| reply.map(|body| ReplyBody::new(body, request))))
    }
}

pin_project! {
    /// The body of a reply. A chunk of it counts in the budget of its connection until the next one is asked for: then
    /// the client has room for it in its window.
    pub(crate) struct ReplyBody<B> {
        #[pin]
        body: B,
        held: Option<HeldBytes>,
        request: Option<OpenRequest>,
    }
}

impl<B> ReplyBody<B> {
    fn new(body: B, request: Option<OpenRequest>) -> Self {
        let budget = request.as_ref().and_then(|it| it.0.budget.as_ref());
        Self {
            body,
            held: budget.map(|budget| budget.hold(0)),
            request,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ReplyBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = this.body.poll_frame(context);
        if let Some(held) = this.held {
            held.set(match &frame {
                Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Buf::remaining),
                _ => 0,
            });
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
