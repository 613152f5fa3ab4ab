//! Finds the service of a gRPC call by its path.
//!
//! A path is `/SERVICE/METHOD`, so its first part is compared with a few names. axum's router does that, too, but moves each
//! request several times, and puts it in boxes.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

use crate::connection::BoxError;

/// A reply that is being made.
pub type GrpcReply = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// gRPC services by their names. Clones are the same services.
#[derive(Clone, Default)]
pub struct GrpcRoutes(Arc<Vec<Route>>);

#[derive(Clone)]
struct Route {
    service: &'static str,
    call: Arc<dyn Fn(Request<Body>) -> GrpcReply + Send + Sync>,
}

impl GrpcRoutes {
    /// The routes to one service.
    pub fn new<S>(service: S) -> Self
    where
        S: GrpcServer,
    {
        Self::default().add_service(service)
    }

    /// The same routes, and those to another service. The services that get most calls are best added first.
    #[must_use]
    pub fn add_service<S>(mut self, service: S) -> Self
    where
        S: GrpcServer,
    {
        // A server of tonic is ready at any time.
        let call = move |request| service.clone().call(request);
        Arc::make_mut(&mut self.0).push(Route {
            service: S::NAME,
            call: Arc::new(call),
        });
        self
    }

    /// Answers a call.
    pub(crate) fn answer<B>(&self, request: Request<B>) -> GrpcReply
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let name = service_name(request.uri().path());
        match self.0.iter().find(|route| route.service == name) {
            Some(route) => (route.call)(request.map(Body::new)),
            None => Box::pin(ready(Ok(no_service()))),
        }
    }
}

impl fmt::Debug for GrpcRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|route| route.service);
        f.debug_set().entries(names).finish()
    }
}

impl<B> Service<Request<B>> for GrpcRoutes
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = GrpcReply;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> GrpcReply {
        self.answer(request)
    }
}

/// A service as tonic generates it.
pub trait GrpcServer:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = GrpcReply>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> GrpcServer for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = GrpcReply>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The name of the service that a path begins with; the empty one for a path of another form.
fn service_name(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or_default();
    path.split_once('/').map_or("", |(service, _)| service)
}

fn no_service() -> Response<Body> {
    let text =
        "this port has no service of that name; ask for a list of its services by gRPC reflection";
    Status::unimplemented(text).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Health;

    #[test]
    fn a_path_begins_with_the_name_of_a_service() {
        assert_eq!(service_name("/jina.JinaRPC/Call"), "jina.JinaRPC");
        assert_eq!(service_name("/jina.JinaRPC/"), "jina.JinaRPC");
        assert_eq!(service_name("/a/b/c"), "a");
        for bad in ["", "/", "//", "jina.JinaRPC/Call", "/jina.JinaRPC"] {
            assert_eq!(service_name(bad), "", "{bad}");
        }
    }

    #[tokio::test]
    async fn a_call_of_a_service_that_does_not_exist_is_not_implemented() {
        let (_health, service) = Health::new(&[]).await;
        let routes = GrpcRoutes::new(service);
        let status = async |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let Ok(reply) = routes.answer(request).await;
            Status::from_header_map(reply.headers()).unwrap()
        };
        for path in [
            "/grpc.health.v1.Healthy/Check",
            "/",
            "/grpc.health.v1.Health",
        ] {
            let status = status(path).await;
            assert_eq!(status.code(), tonic::Code::Unimplemented, "{path}");
            assert!(status.message().contains("no service"), "{status}");
        }
        // The service exists, and its method does not.
        let unknown = status("/grpc.health.v1.Health/Unknown").await;
        assert_eq!(unknown.code(), tonic::Code::Unimplemented);
        assert_eq!(unknown.message(), "");
    }
}
