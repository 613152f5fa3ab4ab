//! What carries the calls of a replica: a connection, or the routes of an executor in this process.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tower_service::Service;

use super::connection::{Connection, ReplyFuture};
use crate::BoxError;
use crate::grpc::{GrpcReply, GrpcRoutes};

/// An executor in this process. It gets calls as values: no connection carries them, and no HTTP/2 frames are made.
#[derive(Debug, Clone)]
pub struct LocalService(GrpcRoutes);

impl LocalService {
    /// An executor with these gRPC routes.
    #[must_use]
    pub fn new(routes: GrpcRoutes) -> Self {
        Self(routes)
    }
}

/// What carries the calls of a replica.
#[derive(Debug, Clone)]
pub(crate) enum ReplicaChannel {
    /// A connection to another process.
    Connection(Connection),
    /// An executor in this process.
    Local(LocalService),
}

impl ReplicaChannel {
    /// Whether calls need not wait for a connection.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Connection(connection) => connection.is_open(),
            Self::Local(_) => true,
        }
    }

    /// Sets whether the calls that follow wait for a connection only briefly.
    pub(super) fn wait_briefly(&self, briefly: bool) {
        if let Self::Connection(connection) = self {
            connection.wait_briefly(briefly);
        }
    }
}

/// A call that is in progress.
pub(crate) enum ChannelFuture {
    Connection(ReplyFuture),
    Local(GrpcReply),
}

impl Service<Request<Body>> for ReplicaChannel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = ChannelFuture;

    /// Both are ready at any time.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ChannelFuture {
        match self {
            Self::Connection(connection) => ChannelFuture::Connection(connection.call(request)),
            Self::Local(LocalService(routes)) => ChannelFuture::Local(routes.answer(request)),
        }
    }
}

impl Future for ChannelFuture {
    type Output = Result<Response<Body>, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Connection(reply) => reply.as_mut().poll(context),
            Self::Local(reply) => {
                let reply = reply.as_mut().poll(context);
                reply.map(|reply| reply.map_err(|never| match never {}))
            }
        }
    }
}
