//! A call with one request and one reply of documents, which most calls are.
//!
//! tonic's client does the same by streams of one message. It still makes calls whose requests are compressed.

use flow_proto::Envelope;
use http::header::{CONTENT_TYPE, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use tonic::body::Body;
use tonic::metadata::{GRPC_CONTENT_TYPE, MetadataMap};
use tonic::{Code, Status};
use tower_service::Service;

use super::channel::ReplicaChannel;
use crate::grpc::SINGLE_DATA;
use crate::grpc::codec::decoded;
use crate::grpc::message::{MessageBody, ReceivedMessage, encode, receive};

/// Sends a request with this metadata, and returns the reply. Messages have at most `len_max` bytes.
///
/// # Errors
///
/// If there is no reply.
pub(super) fn single_data_call(
    mut channel: ReplicaChannel,
    request: &Envelope,
    metadata: MetadataMap,
    len_max: usize,
) -> impl Future<Output = Result<tonic::Response<Envelope>, Status>> + Send + use<> {
    let message = encode(request, len_max);
    async move {
        let reply = channel.call(http_request(message?, metadata));
        let reply = reply.await.map_err(Status::from_error)?;
        read(reply, len_max).await
    }
}

fn http_request(message: bytes::Bytes, metadata: MetadataMap) -> Request<Body> {
    let mut request = Request::new(Body::new(MessageBody::new(message, None)));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = Uri::from(PathAndQuery::from_static(SINGLE_DATA));
    let mut headers = metadata.into_headers();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    *request.headers_mut() = headers;
    request
}

async fn read(reply: Response<Body>, len_max: usize) -> Result<tonic::Response<Envelope>, Status> {
    let (head, body) = reply.into_parts();
    let mut headers = head.headers;
    if headers.contains_key(Status::GRPC_STATUS) {
        // It has no body.
        return Err(check(&headers).err().unwrap_or_else(no_reply));
    }
    if head.status != StatusCode::OK {
        return Err(not_grpc(head.status));
    }
    let ReceivedMessage { message, trailers } = receive(body, len_max).await?;
    let trailers = trailers.unwrap_or_default();
    check(&trailers)?;
    let reply = decoded(message.ok_or_else(no_reply)?)?;
    headers.extend(trailers);
    let metadata = MetadataMap::from_headers(headers);
    Ok(tonic::Response::from_parts(
        metadata,
        reply,
        head.extensions,
    ))
}

/// Fails unless headers or trailers say that the call succeeded.
fn check(headers: &HeaderMap) -> Result<(), Status> {
    let is_ok = |status: &HeaderValue| status.as_bytes() == b"0";
    if headers.get(Status::GRPC_STATUS).is_some_and(is_ok) {
        return Ok(());
    }
    match Status::from_header_map(headers) {
        Some(status) if status.code() == Code::Ok => Ok(()),
        Some(status) => Err(status),
        None => Err(Status::unknown(
            "the reply ended without a status: a proxy may have ended it",
        )),
    }
}

fn no_reply() -> Status {
    Status::internal("the call succeeded, and there is no reply")
}

/// The failure of a call that something else than a gRPC server answered, with the code that gRPC gives it.
fn not_grpc(status: StatusCode) -> Status {
    let code = match status {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    };
    let text = format!("the reply is not one of a gRPC server: its HTTP status is {status}");
    Status::new(code, text)
}

#[cfg(test)]
mod tests;
