//! Documents that are nested deep, or many, or of many fields.

use bytes::{Bytes, BytesMut};
use flow_proto::Envelope;
use flow_tests::raw::{Connection, SINGLE, encoded};
use flow_tests::{said, texts};
use prost::Message;
use prost::encoding::WireType::LengthDelimited;
use prost::encoding::{encode_key, encode_varint};

use super::Target;

fn put(out: &mut BytesMut, number: u32, content: &[u8]) {
    encode_key(number, LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

pub(super) fn message(fields: &[(u32, &[u8])]) -> Bytes {
    let mut out = BytesMut::new();
    fields
        .iter()
        .for_each(|(number, content)| put(&mut out, *number, content));
    out.freeze()
}

/// The data of a request with a document in which documents are nested, all with the same id.
pub(super) fn nested(depth: usize) -> Bytes {
    let mut document = message(&[(1, b"same")]);
    for _ in 1..depth {
        document = message(&[(1, b"same"), (14, &document)]);
    }
    message(&[(1, &message(&[(1, &document)]))])
}

pub(super) fn with_data(endpoint: &str, data: Bytes) -> Envelope {
    Envelope {
        data: Some(data),
        ..texts(endpoint, &[])
    }
}

/// The failure in the reply.
pub(super) async fn refused(target: &Target, port: u16, request: &Envelope) -> String {
    let connection = Connection::open(port).await;
    let request = encoded(request);
    target.sends(request.len());
    let answer = connection.call(SINGLE, request).await;
    match answer.messages.first() {
        None => answer.message,
        Some(reply) => {
            let reply = Envelope::decode(reply.clone()).unwrap();
            said(&reply).failure.expect("it is refused")
        }
    }
}

#[tokio::test]
async fn deep_documents_are_refused_by_the_gateway_and_by_executors() {
    let yaml = "executors: [{name: index, uses: vector-index, host: 127.0.0.1}]";
    let target = Target::up(yaml, &["gateway", "index"]);
    target.flow.expect("there is no `workspace`");
    let deep = with_data("/index", nested(14_000));
    let failure = refused(&target, target.flow.port(), &deep).await;
    assert!(failure.contains("nested more than 64 levels"), "{failure}");
    let failure = refused(&target, target.port_of("index"), &deep).await;
    assert!(failure.contains("nested more than"), "{failure}");
    target.survived(64).await;
}

const JOIN: &str = "executors:
  - {name: a, uses: echo, needs: gateway}
  - {name: b, uses: segmenter, needs: gateway}
  - {name: c, uses: echo, needs: [a, b]}
";

#[tokio::test]
async fn deep_documents_do_not_pass_a_join() {
    let target = Target::up(JOIN, &["gateway", "a", "b", "c"]);
    let failure = refused(
        &target,
        target.flow.port(),
        &with_data("/segment", nested(3000)),
    )
    .await;
    assert!(failure.contains("nested more than 64 levels"), "{failure}");
    target.survived(64).await;
}

#[tokio::test]
async fn many_fields_through_a_join_delay_no_other_request() {
    let target = Target::up(JOIN, &["gateway", "a", "b", "c"]);
    // The segmenter adds chunks, so that the branches differ.
    let mut document = BytesMut::from(&message(&[(1, b"id"), (4, b"Some words. And more.")])[..]);
    (100..50_100).for_each(|number| put(&mut document, number, b"x"));
    let data = message(&[(1, &message(&[(1, &document)]))]);
    let request = encoded(&with_data("/segment", data));
    let connection = Connection::open(target.flow.port()).await;
    target.sends(4 * request.len());
    let attacks = (0..4).map(|_| connection.call(SINGLE, request.clone()));
    let ((), answers) = tokio::join!(
        target.survived(256),
        futures_util::future::join_all(attacks)
    );
    for answer in answers {
        let reply = Envelope::decode(answer.messages[0].clone()).unwrap();
        assert_eq!(said(&reply).failure, None);
    }
}

#[tokio::test]
async fn more_documents_than_the_limit_are_refused() {
    let yaml = "gateway: {documents_max: 1000}\nexecutors: [{name: echo, uses: echo}]";
    let target = Target::up(yaml, &["gateway", "echo"]);
    // Empty documents are two bytes each.
    let array = Bytes::from(b"\x0a\x00".repeat(1001));
    let many = with_data("/any", message(&[(1, &array)]));
    let failure = refused(&target, target.flow.port(), &many).await;
    assert!(failure.contains("more than 1000 documents"), "{failure}");
    target.survived(32).await;
}
