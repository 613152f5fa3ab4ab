//! Messages as large as stock clients send them, and larger ones.

use bytes::Bytes;
use flow_core::{Deadline, Document, DocumentArray};
use flow_proto::Envelope;
use flow_tests::raw::{self, CALL, Connection, SINGLE};
use flow_tests::{TestFlow, client, said, texts};
use prost::Message;

const MEGABYTE: usize = 1 << 20;

#[tokio::test]
async fn a_message_of_100_megabytes_passes_both_ways() {
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    let text = "0123456789abcdef".repeat(100 * MEGABYTE / 16);
    let documents = DocumentArray::from_iter([Document::from_text(&text)]);
    let request = Envelope {
        data: Some(documents.encode()),
        ..texts("/any", &[])
    };
    let sent = request.data.clone();
    let reply = client(&flow)
        .await
        .single(request, Deadline::NEVER)
        .await
        .unwrap();
    assert!(reply.data == sent, "what came back is not what was sent");
}

/// A message of a gigabyte is announced; no node needs it to come.
async fn check(path: &str, before: Bytes) {
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    let connection = Connection::open(flow.port()).await;
    let body = [
        before,
        raw::header(1024 * MEGABYTE),
        Bytes::from_static(b"the first bytes of it"),
    ];
    let (refused, beside) = tokio::join!(
        connection.call(path, body.concat().into()),
        connection.call(SINGLE, raw::encoded(&texts("/any", &["beside"]))),
    );
    assert_eq!(refused.status, 11, "OUT_OF_RANGE: {}", refused.message);
    let limit = (512 * MEGABYTE).to_string();
    assert!(refused.message.contains(&limit), "{}", refused.message);
    let replies = [refused.messages, beside.messages].concat();
    for reply in replies {
        assert_eq!(said(&Envelope::decode(reply).unwrap()).texts, ["beside"]);
    }
    let after = connection
        .call(SINGLE, raw::encoded(&texts("/any", &["after"])))
        .await;
    assert_eq!(
        said(&Envelope::decode(after.messages[0].clone()).unwrap()).texts,
        ["after"]
    );
}

#[tokio::test]
async fn a_message_of_a_gigabyte_is_refused_and_its_connection_goes_on() {
    check(SINGLE, Bytes::new()).await;
}

#[tokio::test]
async fn requests_before_it_on_its_stream_get_their_replies() {
    check(CALL, raw::encoded(&texts("/any", &["beside"]))).await;
}
