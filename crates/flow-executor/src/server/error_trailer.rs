//! Adds `is-error: true` to the trailers of a failed reply.
//!
//! Stock gateways stop the graph on that trailer only; the status in the reply's header is not enough. tonic writes the
//! trailers of a unary reply itself, so this wraps the reply's body.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

/// Marks a reply as failed, in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IsError;

/// A service that adds the trailer to replies with [`IsError`].
#[derive(Debug, Clone)]
pub(crate) struct ErrorTrailer<S>(pub(crate) S);

impl<S: NamedService> NamedService for ErrorTrailer<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<B>> for ErrorTrailer<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let reply = self.0.call(request);
        Box::pin(async move { reply.await.map(add_trailer) })
    }
}

fn add_trailer(reply: Response<Body>) -> Response<Body> {
    if reply.extensions().get::<IsError>().is_none() {
        return reply;
    }
    reply.map(|body| Body::new(FailedBody(body)))
}

/// A body with the trailer.
struct FailedBody(Body);

impl HttpBody for FailedBody {
    type Data = bytes::Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.0).poll_frame(context).map(|frame| {
            frame.map(|frame| {
                frame.map(|frame| match frame.into_trailers() {
                    Ok(trailers) => Frame::trailers(with_error(trailers)),
                    Err(data) => data,
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

fn with_error(mut trailers: HeaderMap) -> HeaderMap {
    trailers.insert("is-error", HeaderValue::from_static("true"));
    trailers
}
