//! Answers calls with one request and one reply of documents, which most calls are.
//!
//! tonic's server does the same by streams of one message. It still answers what is rare: compressed requests, and calls of
//! methods that do not exist.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use flow_proto::Envelope;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{GRPC_CONTENT_TYPE, MetadataMap};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_service::Service;

use super::SINGLE_DATA;
use super::codec::decoded;
use super::generated::jina_single_data_request_rpc_server::{
    JinaSingleDataRequestRpc, JinaSingleDataRequestRpcServer,
};
use super::message::{MessageBody, encode, receive};
use super::routes::GrpcReply;
use super::service::is_compressed;

/// A server of `jina.JinaSingleDataRequestRPC`.
#[derive(Debug)]
pub struct SingleDataServer<T> {
    service: Arc<T>,
    limits: MessageLimits,
    rest: JinaSingleDataRequestRpcServer<T>,
}

/// The most bytes of a message.
#[derive(Debug, Clone, Copy)]
struct MessageLimits {
    read_max: usize,
    write_max: usize,
}

impl<T: JinaSingleDataRequestRpc> SingleDataServer<T> {
    /// Answers by `service` requests of at most `read_max` bytes, decompressed, with replies of at most `write_max` bytes.
    pub fn new(service: T, read_max: usize, write_max: usize) -> Self {
        let service = Arc::new(service);
        let rest = JinaSingleDataRequestRpcServer::from_arc(service.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Deflate)
            .max_decoding_message_size(read_max)
            .max_encoding_message_size(write_max);
        let limits = MessageLimits {
            read_max,
            write_max,
        };
        Self {
            service,
            limits,
            rest,
        }
    }
}

impl<T> Clone for SingleDataServer<T> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            limits: self.limits,
            rest: self.rest.clone(),
        }
    }
}

impl<T> NamedService for SingleDataServer<T> {
    const NAME: &'static str = JinaSingleDataRequestRpcServer::<T>::NAME;
}

impl<T: JinaSingleDataRequestRpc> Service<Request<Body>> for SingleDataServer<T> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = GrpcReply;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> GrpcReply {
        if request.uri().path() != SINGLE_DATA || is_compressed(request.headers()) {
            return self.rest.call(request);
        }
        let (service, limits) = (self.service.clone(), self.limits);
        Box::pin(async move {
            let answered = answer(&*service, request, limits).await;
            Ok(answered.unwrap_or_else(Status::into_http))
        })
    }
}

async fn answer(
    service: &impl JinaSingleDataRequestRpc,
    request: Request<Body>,
    limits: MessageLimits,
) -> Result<Response<Body>, Status> {
    let (head, body) = request.into_parts();
    let received = receive(body, limits.read_max).await?;
    let message = received.message;
    let message = message.ok_or_else(|| Status::internal("the call has no request"))?;
    let mut headers = head.headers;
    headers.extend(received.trailers.unwrap_or_default());
    let metadata = MetadataMap::from_headers(headers);
    let request: Envelope = decoded(message)?;
    let request = tonic::Request::from_parts(metadata, head.extensions, request);
    let reply = service.process_single_data(request).await?;
    let (metadata, reply, extensions) = reply.into_parts();
    let body = MessageBody::new(encode(&reply, limits.write_max)?, Some(succeeded()));
    let mut response = Response::new(Body::new(body));
    *response.headers_mut() = metadata.into_headers();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    *response.extensions_mut() = extensions;
    Ok(response)
}

/// The trailers of a reply.
fn succeeded() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from(Code::Ok as i32));
    trailers
}

#[cfg(test)]
pub(crate) mod tests;
