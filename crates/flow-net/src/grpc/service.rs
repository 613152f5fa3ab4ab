//! gRPC routes as a service of a connection.
//!
//! gRPC needs HTTP/2. A request over HTTP/1, from a browser or a wrong client, gets an answer that says so.
//! A call with a `grpc-timeout` ends at that time.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Status, TimeoutExpired};
use tower_service::Service;

use crate::HttpService;
use crate::grpc::metadata::timeout;

/// Answers gRPC calls.
#[derive(Debug, Clone)]
pub struct GrpcService(Routes);

impl GrpcService {
    /// A service with these routes.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        Self(routes.prepare())
    }
}

impl HttpService for GrpcService {
    type Body = Body;
    type Future = GrpcFuture;

    fn call(&self, request: Request<Incoming>) -> GrpcFuture {
        if request.version() < Version::HTTP_2 {
            let response = ready(Ok(needs_http2(request.headers())));
            return GrpcFuture::Refused { response };
        }
        let limit = timeout(request.headers());
        // A router is ready at any time.
        let reply = self.0.clone().call(request);
        GrpcFuture::Called {
            reply,
            limit: limit.map(sleep),
        }
    }
}

type RoutesFuture = <Routes as Service<Request<Incoming>>>::Future;

pin_project! {
    /// A reply that is being made.
    #[project = GrpcFutureProjection]
    #[derive(Debug)]
    pub enum GrpcFuture {
        /// The routes answer.
        Called {
            reply: RoutesFuture,
            #[pin]
            limit: Option<Sleep>,
        },
        /// The request is no gRPC call.
        Refused {
            response: Ready<Result<Response<Body>, Infallible>>,
        },
    }
}

impl Future for GrpcFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            GrpcFutureProjection::Called { reply, limit } => {
                if let Poll::Ready(reply) = Pin::new(reply).poll(context) {
                    return Poll::Ready(reply);
                }
                match limit.as_pin_mut() {
                    Some(limit) => limit.poll(context).map(|()| Ok(timed_out())),
                    None => Poll::Pending,
                }
            }
            GrpcFutureProjection::Refused { response } => Pin::new(response).poll(context),
        }
    }
}

fn timed_out() -> Response<Body> {
    Status::from_error(Box::new(TimeoutExpired(()))).into_http()
}

fn needs_http2(headers: &HeaderMap) -> Response<Body> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or("HOST:PORT");
    let text = format!(
        "this port speaks gRPC over HTTP/2, and this request came over HTTP/1; use a gRPC client, such as \
         `flow post grpc://{host} --on /encode --text hello`\n"
    );
    let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests;
