//! Invalid requests get an answer, and harm no other request.

use bytes::Bytes;
use flow_proto::Envelope;
use flow_tests::raw::{self, CALL, Connection, SINGLE};
use flow_tests::{PlainReply, TestFlow, post, said, texts, texts_of};
use prost::Message;

use crate::FAULTY;

fn echo() -> TestFlow {
    TestFlow::up("executors: [{name: echo, uses: echo}]")
}

fn read(message: &Bytes) -> PlainReply {
    said(&Envelope::decode(message.clone()).unwrap())
}

#[tokio::test]
async fn a_malformed_message_on_a_stream_gets_a_failed_reply_of_its_own() {
    let flow = echo();
    let connection = Connection::open(flow.port()).await;
    let good = |text| raw::encoded(&texts("/any", &[text]));
    let body = [
        good("before"),
        raw::frame(b"\xff\xff no protobuf"),
        good("after"),
    ]
    .concat();
    let answer = connection.call(CALL, body.into()).await;

    assert_eq!(answer.status, 0, "{}", answer.message);
    let replies: Vec<PlainReply> = answer.messages.iter().map(read).collect();
    let texts: Vec<&String> = replies.iter().flat_map(|said| &said.texts).collect();
    assert!(texts.contains(&&"before".to_owned()) && texts.contains(&&"after".to_owned()));
    let failures: Vec<&String> = replies
        .iter()
        .filter_map(|said| said.failure.as_ref())
        .collect();
    assert_eq!(failures.len(), 1, "{replies:#?}");
    assert!(failures[0].contains("not valid protobuf"), "{failures:?}");
}

#[tokio::test]
async fn a_malformed_message_fails_only_its_own_call() {
    let flow = echo();
    let connection = Connection::open(flow.port()).await;
    let answer = connection
        .call(SINGLE, raw::frame(b"\xff\xff no protobuf"))
        .await;
    let failure = read(&answer.messages[0]).failure.unwrap();
    assert!(failure.contains("not valid protobuf"), "{failure}");
    let answer = connection
        .call(SINGLE, raw::encoded(&texts("/any", &["x"])))
        .await;
    assert_eq!(read(&answer.messages[0]).texts, ["x"]);
}

/// A request whose documents are bytes of our choice, beside one that is well.
async fn check_documents(data: &'static [u8], wanted: &str) {
    let flow = echo();
    let data = Some(Bytes::from_static(data));
    let bad = Envelope {
        data,
        ..texts("/any", &[])
    };
    let said = post(&flow, vec![bad, texts("/any", &["well"])]).await;
    let failure = said[0]
        .failure
        .as_deref()
        .unwrap_or_else(|| panic!("{:?}", said[0]));
    assert!(failure.contains(wanted), "{failure}");
    assert_eq!(said[0].exception.as_deref(), Some("BadRequest"));
    assert_eq!(said[1].texts, ["well"]);
}

#[tokio::test]
async fn malformed_documents_are_refused_by_the_executor() {
    // An array whose only document has a length beyond its end.
    check_documents(b"\x0a\x04\x0a\x20xx", "executor `echo`: ").await;
}

#[tokio::test]
async fn a_text_that_is_not_utf8_is_refused_by_the_executor() {
    // A document of DocArray v1: an id, and a text of one byte that is none.
    check_documents(
        b"\x0a\x08\x0a\x06\x0a\x01a\x22\x01\xff",
        "executor `echo`: ",
    )
    .await;
}

#[tokio::test]
async fn an_endpoint_without_a_handler_returns_the_request_unchanged() {
    let flow = TestFlow::up(&format!("executors: [{{name: faulty, uses: {FAULTY}}}]"));
    let said = post(&flow, vec![texts("/no/such/endpoint", &["x"])]).await;
    assert_eq!(said[0].texts, ["x"]);
    assert_eq!(said[0].failure, None);
}

#[tokio::test]
async fn a_target_that_is_not_a_regular_expression_is_refused() {
    let flow = echo();
    let mut bad = texts("/any", &["x"]);
    bad.header.as_mut().unwrap().target_executor = Some("(".to_owned());
    let said = post(&flow, vec![bad, texts("/any", &["well"])]).await;
    let failure = said[0].failure.as_deref().unwrap();
    assert!(
        failure.contains("`target_executor` is not a valid regular expression"),
        "{failure}"
    );
    assert_eq!(said[1].texts, ["well"]);
}

#[tokio::test]
async fn a_request_without_a_header_is_answered() {
    let flow = echo();
    let bare = Envelope {
        header: None,
        ..texts("/any", &["x"])
    };
    let said = post(&flow, vec![bare, Envelope::default()]).await;
    assert_eq!(said[0].texts, ["x"]);
    assert_eq!(said[1].failure, None);
}

/// A document with an unknown field, written by hand.
async fn check_unknown_field(version: flow_core::DocArrayVersion) {
    let flow = TestFlow::up(&format!("executors: [{{name: faulty, uses: {FAULTY}}}]"));
    for endpoint in ["/any", "/touch"] {
        let mut request = texts_of(version, endpoint, &["x"]);
        let known = request.data.take().unwrap();
        // The array holds one document, and its length fits into one byte each time.
        let mut array = known.slice(2..).to_vec();
        array.extend_from_slice(b"\xfa\x3e\x03new");
        array[1] += 6;
        let data: Bytes = [&[0x0a, u8::try_from(array.len()).unwrap()], &array[..]]
            .concat()
            .into();
        request.data = Some(data.clone());
        let client = flow_tests::client(&flow).await;
        let reply = client
            .single(request, flow_core::Deadline::NEVER)
            .await
            .unwrap();
        let back = reply.data.unwrap();
        let has_it = back.windows(6).any(|window| window == b"\xfa\x3e\x03new");
        assert!(
            has_it && back.len() == data.len(),
            "{endpoint} {version:?}: {data:?} became {back:?}"
        );
    }
}

#[tokio::test]
async fn an_unknown_field_comes_back() {
    check_unknown_field(flow_core::DocArrayVersion::V1).await;
    check_unknown_field(flow_core::DocArrayVersion::V2).await;
}
