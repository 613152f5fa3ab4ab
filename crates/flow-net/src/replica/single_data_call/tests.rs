use futures_util::FutureExt;
use http::HeaderName;

use super::*;
use crate::grpc::single_data_server::tests::envelope;

const LEN_MAX: usize = 1 << 10;

fn headers(entries: &[(&'static str, &'static str)]) -> HeaderMap {
    let entry = |(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    entries.iter().copied().map(entry).collect()
}

/// A reply with this message and these trailers.
fn reply(message: Option<&Envelope>, trailers: &[(&'static str, &'static str)]) -> Response<Body> {
    let message = message.map(|it| encode(it, LEN_MAX).unwrap());
    let body = MessageBody::new(message.unwrap_or_default(), Some(headers(trailers)));
    Response::new(Body::new(body))
}

fn outcome(reply: Response<Body>) -> Result<tonic::Response<Envelope>, Status> {
    read(reply, LEN_MAX).now_or_never().expect("all is there")
}

fn failure(reply: Response<Body>) -> (Code, String) {
    let status = outcome(reply).unwrap_err();
    (status.code(), status.message().to_owned())
}

#[test]
fn a_request_is_a_grpc_call_with_its_metadata() {
    let metadata = MetadataMap::from_headers(headers(&[("x-request-id", "r-1")]));
    let request = http_request(encode(&envelope("r-1"), LEN_MAX).unwrap(), metadata);
    assert_eq!(request.method(), Method::POST);
    assert_eq!(request.uri().path(), SINGLE_DATA);
    let expected = headers(&[
        ("x-request-id", "r-1"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]);
    assert_eq!(request.headers(), &expected);
    let received = receive(request.into_body(), LEN_MAX).now_or_never();
    let message = received.unwrap().unwrap().message.unwrap();
    assert_eq!(decoded::<Envelope>(message).unwrap(), envelope("r-1"));
}

#[test]
fn the_metadata_of_a_reply_is_that_before_and_after_its_message() {
    let trailers = [("grpc-status", "0"), ("is-error", "true")];
    let mut reply = reply(Some(&envelope("r-1")), &trailers);
    *reply.headers_mut() = headers(&[("flow-tokens", "7")]);
    let reply = outcome(reply).unwrap();
    assert_eq!(reply.metadata().get("flow-tokens").unwrap(), "7");
    assert_eq!(reply.metadata().get("is-error").unwrap(), "true");
    assert_eq!(reply.into_inner(), envelope("r-1"));
}

#[test]
fn a_status_that_is_a_failure_fails_the_call() {
    let failed = [("grpc-status", "14"), ("grpc-message", "not%20now")];
    let expected = (Code::Unavailable, "not now".to_owned());
    // After the message, instead of it, or in the head of a reply without a body.
    assert_eq!(failure(reply(Some(&envelope("r-1")), &failed)), expected);
    assert_eq!(failure(reply(None, &failed)), expected);
    let mut without_body = Response::new(Body::empty());
    *without_body.headers_mut() = headers(&failed);
    assert_eq!(failure(without_body), expected);
}

#[test]
fn a_reply_needs_a_message_and_a_status() {
    let (code, text) = failure(reply(None, &[("grpc-status", "0")]));
    assert_eq!(code, Code::Internal);
    assert!(text.contains("there is no reply"), "{text}");
    let (code, text) = failure(reply(Some(&envelope("r-1")), &[]));
    assert_eq!(code, Code::Unknown);
    assert!(text.contains("ended without a status"), "{text}");
}

#[test]
fn a_reply_of_something_else_than_a_grpc_server_has_the_code_for_its_http_status() {
    let check = |status: u16, expected: Code| {
        let mut reply = Response::new(Body::empty());
        *reply.status_mut() = StatusCode::from_u16(status).unwrap();
        let (code, text) = failure(reply);
        assert_eq!(code, expected, "{status}");
        assert!(text.contains(&status.to_string()), "{text}");
    };
    check(404, Code::Unimplemented);
    check(401, Code::Unauthenticated);
    check(503, Code::Unavailable);
    check(500, Code::Unknown);
    check(302, Code::Unknown);
}
