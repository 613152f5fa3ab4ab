use flow_proto::jina::StatusProto;
use futures_util::{FutureExt, stream};
use http_body_util::StreamBody;
use proptest::prelude::*;
use tonic::Code;

use super::*;

const LEN_MAX: usize = 1 << 10;

fn received<'d>(data: impl IntoIterator<Item = &'d [u8]>) -> Result<ReceivedMessage, Status> {
    let frame = |data| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(data)));
    let frames: Vec<_> = data.into_iter().map(frame).collect();
    let body = Body::new(StreamBody::new(stream::iter(frames)));
    let received = receive(body, LEN_MAX).now_or_never();
    received.expect("all is there")
}

fn message(text: &str) -> StatusProto {
    StatusProto {
        description: text.to_owned(),
        ..StatusProto::default()
    }
}

#[test]
fn a_message_and_its_trailers_are_received_as_they_were_sent() {
    let sent = message("hello");
    let trailers = HeaderMap::from_iter([(http::header::TE, http::HeaderValue::from_static("x"))]);
    let bytes = encode(&sent, LEN_MAX).unwrap();
    let body = Body::new(MessageBody::new(bytes, Some(trailers.clone())));
    let received = receive(body, LEN_MAX).now_or_never();
    let received = received.unwrap().unwrap();
    assert_eq!(StatusProto::decode(received.message.unwrap()), Ok(sent));
    assert_eq!(received.trailers, Some(trailers));
}

#[test]
fn a_body_may_have_no_message_and_an_empty_message() {
    assert_eq!(received([]).unwrap().message, None);
    assert_eq!(received([&b""[..]]).unwrap().message, None);
    let empty = encode(&StatusProto::default(), LEN_MAX).unwrap();
    let received = received([&empty[..]]).unwrap();
    assert_eq!(received.message, Some(Bytes::new()));
}

#[test]
fn bodies_of_any_other_form_are_refused() {
    let check = |data: &[u8], code: Code, expected: &str| {
        // Whether the bytes come at once or one by one.
        for status in [received([data]), received(data.chunks(1))] {
            let status = status.unwrap_err();
            assert_eq!(status.code(), code, "{data:?}");
            assert!(status.message().contains(expected), "{status}");
        }
    };
    check(&[0], Code::Internal, "ended within a message");
    check(
        &[0, 0, 0, 0, 2, 1],
        Code::Internal,
        "ended within a message",
    );
    check(&[1, 0, 0, 0, 0], Code::Internal, "begins with 1");
    check(&[7, 0, 0, 0, 0], Code::Internal, "begins with 7");
    check(
        &[0, 0, 0, 0, 0, 9],
        Code::InvalidArgument,
        "more than one message",
    );
    let too_long = "found 4294967295 bytes, the limit is: 1024 bytes";
    check(&[0, 255, 255, 255, 255], Code::OutOfRange, too_long);
}

#[test]
fn a_long_message_is_not_encoded() {
    let long = message(&"x".repeat(LEN_MAX));
    let status = encode(&long, LEN_MAX).unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert!(encode(&long, LEN_MAX + 10).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_may_come_in_any_parts(text in ".{0,64}", cuts in prop::collection::vec(0..80_usize, 0..4)) {
        let sent = message(&text);
        let bytes = encode(&sent, LEN_MAX).unwrap();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        let received = received(parts).unwrap();
        prop_assert_eq!(StatusProto::decode(received.message.unwrap()), Ok(sent));
    }
}
