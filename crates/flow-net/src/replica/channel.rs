//! What carries the calls of a replica: a connection, or the routes of an executor in this process.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::{Channel, Error};
use tower_service::Service;

/// An executor in this process. It gets calls as values: no connection carries them, and no HTTP/2 frames are made.
#[derive(Debug, Clone)]
pub struct LocalService(Routes);

impl LocalService {
    /// An executor with these gRPC routes.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        Self(routes.prepare())
    }
}

/// What carries the calls of a replica.
#[derive(Debug, Clone)]
pub(crate) enum ReplicaChannel {
    /// Connections to another process.
    Connection(Channel),
    /// An executor in this process.
    Local(LocalService),
}

type ConnectionFuture = <Channel as Service<Request<Body>>>::Future;
type LocalFuture = <Routes as Service<Request<Body>>>::Future;

pin_project! {
    /// A call that is in progress.
    #[project = ChannelFutureProjection]
    pub(crate) enum ChannelFuture {
        Connection { #[pin] reply: ConnectionFuture },
        Local { #[pin] reply: LocalFuture },
    }
}

impl Service<Request<Body>> for ReplicaChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = ChannelFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self {
            Self::Connection(channel) => Service::<Request<Body>>::poll_ready(channel, context),
            // Routes are ready at any time.
            Self::Local(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Body>) -> ChannelFuture {
        match self {
            Self::Connection(channel) => ChannelFuture::Connection {
                reply: channel.call(request),
            },
            Self::Local(LocalService(routes)) => ChannelFuture::Local {
                reply: routes.call(request),
            },
        }
    }
}

impl Future for ChannelFuture {
    type Output = Result<Response<Body>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            ChannelFutureProjection::Connection { reply } => reply.poll(context),
            ChannelFutureProjection::Local { reply } => {
                let never = |never: Infallible| match never {};
                reply.poll(context).map(|reply| reply.map_err(never))
            }
        }
    }
}
