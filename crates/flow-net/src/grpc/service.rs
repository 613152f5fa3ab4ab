//! gRPC routes as a service of a connection, and the routes of other HTTP requests beside them.
//!
//! A request whose content type is that of gRPC is a gRPC call. Any other goes to the HTTP routes; where there are none, an
//! HTTP/1 request, from a browser or a wrong client, gets an answer that says so. A call with a `grpc-timeout` ends at that
//! time. Calls whose requests are compressed have routes of their own, with a lower limit on messages. While the server holds
//! more bytes than it may, only requests without a body and questions for its health are answered.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flow_core::Failure;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service;

use super::request_body::{RequestBody, out_of_memory};
use super::routes::{GrpcReply, GrpcRoutes};
use crate::HttpService;
use crate::connection_handle::ConnectionHandle;
use crate::grpc::metadata::timeout;
use crate::status::{from_failure, too_late};

/// Names the compression of the messages of a call.
pub(crate) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// The content type of gRPC calls, which may be followed by `+` or `;` and more.
const GRPC: &str = "application/grpc";

/// The call that asks for the health of the process.
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Answers gRPC calls, and other requests if it has routes for them.
#[derive(Debug, Clone)]
pub struct GrpcService {
    routes: GrpcRoutes,
    compressed: Option<GrpcRoutes>,
    http: Option<Routes>,
    /// Whether gRPC calls are answered.
    has_grpc: bool,
}

impl GrpcService {
    /// A service with these routes.
    #[must_use]
    pub fn new(routes: GrpcRoutes) -> Self {
        Self {
            routes,
            compressed: None,
            http: None,
            has_grpc: true,
        }
    }

    /// The same service with routes for requests that are not gRPC calls.
    #[must_use]
    pub fn with_http(self, routes: Routes) -> Self {
        Self {
            http: Some(routes.prepare()),
            ..self
        }
    }

    /// The same service with other routes for calls whose requests are compressed.
    #[must_use]
    pub fn with_compressed(self, routes: GrpcRoutes) -> Self {
        Self {
            compressed: Some(routes),
            ..self
        }
    }

    /// The same service, which refuses gRPC calls.
    #[must_use]
    pub fn without_grpc(self) -> Self {
        Self {
            has_grpc: false,
            ..self
        }
    }

    fn routes(&self, headers: &HeaderMap) -> &GrpcRoutes {
        match &self.compressed {
            Some(compressed) if is_compressed(headers) => compressed,
            _ => &self.routes,
        }
    }
}

impl HttpService for GrpcService {
    type Body = Body;
    type Future = GrpcFuture;

    // A router is ready at any time.
    fn call(&self, request: Request<Incoming>) -> GrpcFuture {
        let budget = ConnectionHandle::budget_of(request.extensions()).cloned();
        let is_call = is_call(request.headers());
        let is_health = is_call && request.uri().path() == HEALTH;
        let needs_memory = !is_health && !request.body().is_end_stream();
        if needs_memory && budget.as_ref().is_some_and(|it| !it.may_grow()) {
            return GrpcFuture::refusal(no_memory(is_call));
        }
        if let Some(http) = &self.http
            && !is_call
        {
            let request = request.map(|it| RequestBody::of_http(it, budget));
            return GrpcFuture::unlimited(Box::pin(http.clone().call(request)));
        }
        if request.version() < Version::HTTP_2 {
            return GrpcFuture::refusal(needs_http2(request.headers()));
        }
        if !self.has_grpc {
            return GrpcFuture::refusal(no_grpc());
        }
        let limit = timeout(request.headers());
        let routes = self.routes(request.headers());
        let reply = routes.answer(request.map(|body| match is_health {
            true => RequestBody::of_health(body),
            false => RequestBody::of_grpc(body, budget),
        }));
        let limit = limit.map(|limit| Box::pin(sleep(limit)));
        GrpcFuture { reply, limit }
    }
}

/// Whether a request with these headers is a gRPC call.
#[must_use]
pub fn is_call(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|it| it.strip_prefix(GRPC.as_bytes()));
    matches!(rest, Some([] | [b'+' | b';', ..]))
}

/// Whether the messages of a call are compressed.
pub(super) fn is_compressed(headers: &HeaderMap) -> bool {
    headers
        .get(GRPC_ENCODING)
        .is_some_and(|name| name != "identity")
}

/// A reply that is being made.
pub struct GrpcFuture {
    reply: GrpcReply,
    /// The time that the caller waits, if it says so.
    limit: Option<Pin<Box<Sleep>>>,
}

impl GrpcFuture {
    fn unlimited(reply: GrpcReply) -> Self {
        Self { reply, limit: None }
    }

    fn refusal(response: Response<Body>) -> Self {
        Self::unlimited(Box::pin(ready(Ok(response))))
    }
}

impl fmt::Debug for GrpcFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("GrpcFuture");
        debug.field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Future for GrpcFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // A timer fires up to a millisecond late, and a reply in that time is too late as well.
        let end = this.limit.as_ref().map(|limit| limit.deadline());
        if end.is_some_and(|end| end <= Instant::now()) {
            return Poll::Ready(Ok(timed_out()));
        }
        if let Poll::Ready(reply) = this.reply.as_mut().poll(context) {
            return Poll::Ready(reply);
        }
        match &mut this.limit {
            Some(limit) => limit.as_mut().poll(context).map(|()| Ok(timed_out())),
            None => Poll::Pending,
        }
    }
}

/// The response to a gRPC call that is refused before it is read.
#[must_use]
pub fn refusal(failure: &Failure) -> Response<Body> {
    from_failure(failure).into_http()
}

fn timed_out() -> Response<Body> {
    from_failure(&too_late()).into_http()
}

fn no_memory(is_call: bool) -> Response<Body> {
    let status = out_of_memory();
    if is_call {
        return status.into_http();
    }
    let text = format!("{}\n", status.message());
    let mut response = plain(text);
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

fn no_grpc() -> Response<Body> {
    let text = "this port does not serve gRPC, because of `only_protocols`; use the port whose protocol is `grpc`";
    Status::unimplemented(text).into_http()
}

fn needs_http2(headers: &HeaderMap) -> Response<Body> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or("HOST:PORT");
    let text = format!(
        "this port speaks gRPC over HTTP/2, and this request came over HTTP/1; use a gRPC client, such as \
         `flow post grpc://{host} --on /encode --text hello`\n"
    );
    let mut response = plain(text);
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn plain(text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests;
