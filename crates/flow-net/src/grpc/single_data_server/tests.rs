use bytes::Bytes;
use flow_proto::jina::HeaderProto;
use futures_util::FutureExt;
use http::HeaderName;
use http_body_util::{BodyExt, Full};

use super::*;

const LEN_MAX: usize = 1 << 10;

/// Returns each request with its metadata, and fails those whose id is `fail`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeater;

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for Repeater {
    async fn process_single_data(
        &self,
        request: tonic::Request<Envelope>,
    ) -> Result<tonic::Response<Envelope>, Status> {
        let (metadata, _, message) = request.into_parts();
        if message
            .header
            .as_ref()
            .is_some_and(|it| it.request_id == "fail")
        {
            return Err(Status::aborted("as asked"));
        }
        let mut reply = tonic::Response::new(message);
        if let Some(value) = metadata.get("x-own") {
            reply.metadata_mut().insert("x-own", value.clone());
        }
        Ok(reply)
    }
}

/// A request with this id.
pub(crate) fn envelope(id: &str) -> Envelope {
    let header = HeaderProto {
        request_id: id.to_owned(),
        ..HeaderProto::default()
    };
    Envelope {
        header: Some(header),
        ..Envelope::default()
    }
}

fn answered(path: &str, header: (&'static str, &str), body: Bytes) -> Response<Body> {
    let (name, value) = header;
    let mut request = Request::new(Body::new(Full::new(body)));
    *request.uri_mut() = path.parse().unwrap();
    let name = HeaderName::from_static(name);
    request.headers_mut().insert(name, value.parse().unwrap());
    let mut server = SingleDataServer::new(Repeater, LEN_MAX, LEN_MAX);
    let Ok(reply) = server.call(request).now_or_never().expect("all is there");
    reply
}

fn status(reply: &Response<Body>) -> Status {
    Status::from_header_map(reply.headers()).expect("the head has the status")
}

#[test]
fn a_request_gets_its_reply_and_a_status() {
    let sent = envelope("r-1");
    let body = encode(&sent, LEN_MAX).unwrap();
    let reply = answered(SINGLE_DATA, ("x-own", "7"), body);
    assert_eq!(reply.headers().get("x-own").unwrap(), "7");
    assert_eq!(
        reply.headers().get(CONTENT_TYPE).unwrap(),
        "application/grpc"
    );
    let received = receive(reply.into_body(), LEN_MAX).now_or_never();
    let received = received.unwrap().unwrap();
    assert_eq!(
        decoded::<Envelope>(received.message.unwrap()).unwrap(),
        sent
    );
    assert_eq!(received.trailers, Some(succeeded()));
}

#[test]
fn a_failure_is_in_the_head_of_the_reply() {
    let body = encode(&envelope("fail"), LEN_MAX).unwrap();
    let reply = answered(SINGLE_DATA, ("x-own", "7"), body);
    let status = status(&reply);
    assert_eq!(
        (status.code(), status.message()),
        (Code::Aborted, "as asked")
    );
}

#[test]
fn a_call_without_a_request_and_one_that_is_too_long_fail() {
    let reply = answered(SINGLE_DATA, ("x-own", "7"), Bytes::new());
    assert_eq!(status(&reply).message(), "the call has no request");
    let long = encode(&envelope(&"x".repeat(LEN_MAX)), 2 * LEN_MAX).unwrap();
    let reply = answered(SINGLE_DATA, ("x-own", "7"), long);
    assert_eq!(status(&reply).code(), Code::OutOfRange);
}

#[test]
fn a_reply_that_is_too_long_fails() {
    let body = encode(&envelope("r-1"), LEN_MAX).unwrap();
    let mut request = Request::new(Body::new(Full::new(body)));
    *request.uri_mut() = SINGLE_DATA.parse().unwrap();
    let mut server = SingleDataServer::new(Repeater, LEN_MAX, 3);
    let Ok(reply) = server.call(request).now_or_never().unwrap();
    assert_eq!(status(&reply).code(), Code::OutOfRange);
}

#[tokio::test]
async fn compressed_requests_and_other_methods_are_left_to_tonic() {
    let body = encode(&envelope("r-1"), LEN_MAX).unwrap();
    let gzip = ("grpc-encoding", "gzip");
    let reply = answered(SINGLE_DATA, gzip, body.clone());
    let reply = reply.into_body().collect().await.unwrap();
    // The request may be compressed, and need not be.
    assert_eq!(reply.to_bytes(), body);
    let unknown = answered(SINGLE_DATA, ("grpc-encoding", "br"), body.clone());
    assert_eq!(status(&unknown).code(), Code::Unimplemented);
    let unknown = answered("/jina.JinaSingleDataRequestRPC/other", ("x-own", "7"), body);
    assert_eq!(status(&unknown).code(), Code::Unimplemented);
}
