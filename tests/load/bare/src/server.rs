//! The one service, as tonic's code generator would write it, and its two ways to answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tower_service::Service;

use crate::bytes_codec::BytesCodec;
use crate::call::{self, PATH};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Reply = Result<Response<Bytes>, Status>;

/// How a call is answered.
pub(crate) trait Answer: Clone + Send + Sync + 'static {
    fn answer(self, request: Request<Bytes>) -> Boxed<Reply>;
}

/// Answers with what came.
#[derive(Debug, Clone)]
pub(crate) struct Echo;

impl Answer for Echo {
    fn answer(self, request: Request<Bytes>) -> Boxed<Reply> {
        Box::pin(async { Ok(Response::new(request.into_inner())) })
    }
}

/// Answers with what the upstream says.
#[derive(Debug, Clone)]
pub(crate) struct Forward(Channel);

impl Forward {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        Ok(Self(call::connect(url).await?))
    }
}

impl Answer for Forward {
    fn answer(self, request: Request<Bytes>) -> Boxed<Reply> {
        Box::pin(async { call::unary(self.0, request.into_inner()).await })
    }
}

/// The service around an [`Answer`].
#[derive(Debug, Clone)]
pub(crate) struct Unary<A>(pub(crate) A);

impl<A> NamedService for Unary<A> {
    const NAME: &'static str = "jina.JinaSingleDataRequestRPC";
}

impl<A: Answer> UnaryService<Bytes> for Unary<A> {
    type Response = Bytes;
    type Future = Boxed<Reply>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        self.0.clone().answer(request)
    }
}

impl<A: Answer> Service<http::Request<Body>> for Unary<A> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(Status::unimplemented("only one method is served").into_http());
            }
            Ok(Grpc::new(BytesCodec).unary(service, request).await)
        })
    }
}
