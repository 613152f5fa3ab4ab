//! gRPC calls of browsers: gRPC-Web, over HTTP/1 and HTTP/2.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::{IntoResponse, Response};
use flow_net::GrpcRoutes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tonic_web::GrpcWebLayer as Translation;
use tower_layer::Layer;
use tower_service::Service;

/// The content type of gRPC-Web, and how it may go on.
const GRPC_WEB: &str = "application/grpc-web";

/// Answers gRPC-Web calls with these routes, if there are any, and leaves other requests to the service within.
#[derive(Debug, Clone)]
pub(crate) struct GrpcWebLayer(pub(crate) Option<GrpcRoutes>);

/// The service of a [`GrpcWebLayer`].
#[derive(Debug, Clone)]
pub(crate) struct GrpcWeb<S> {
    inner: S,
    grpc: Option<GrpcRoutes>,
}

impl<S> Layer<S> for GrpcWebLayer {
    type Service = GrpcWeb<S>;

    fn layer(&self, inner: S) -> GrpcWeb<S> {
        GrpcWeb {
            inner,
            grpc: self.0.clone(),
        }
    }
}

impl<S, B> Service<http::Request<B>> for GrpcWeb<S>
where
    S: Service<http::Request<B>, Error = Infallible>,
    S::Response: IntoResponse,
    S::Future: Send + 'static,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<flow_net::BoxError> + std::fmt::Display,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        match &self.grpc {
            Some(grpc) if is_grpc_web(request.headers()) => {
                let mut translated = Translation::new().layer(grpc.clone());
                let answer = translated.call(request);
                Box::pin(async move { Ok(answer.await?.into_response()) })
            }
            _ => {
                let answer = self.inner.call(request);
                Box::pin(async move { Ok(answer.await?.into_response()) })
            }
        }
    }
}

fn is_grpc_web(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|it| it.starts_with(GRPC_WEB))
}
