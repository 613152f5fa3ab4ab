//! Requests that are small on the wire and large in memory, and texts that are too long.

use bytes::Bytes;
use flow_core::Deadline;
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_tests::raw::{CALL, Connection, SINGLE, encoded, gzipped};
use flow_tests::{PlainReply, client, post, said, texts};
use prost::Message;

use super::Target;

const ECHO: &str = "executors: [{name: echo, uses: echo}]";

fn target() -> Target {
    Target::up(ECHO, &["gateway", "echo"])
}

fn failure(said: &PlainReply) -> &str {
    said.failure.as_deref().expect("it is refused")
}

#[tokio::test]
async fn compressed_routes_do_not_fill_the_memory() {
    let target = target();
    // 15 million empty routes in 30 MB, and in 30 KB after compression.
    let routes = gzipped(&b"\x1a\x00".repeat(15_000_000));
    let connection = Connection::open(target.flow.port()).await;
    target.sends(routes.len());
    let answer = connection.call_compressed(SINGLE, routes).await;
    let reply = Envelope::decode(answer.messages[0].clone()).unwrap();
    let said = said(&reply);
    assert!(failure(&said).contains("more than 1024 routes"), "{said:?}");
    target.survived(160).await;
}

#[tokio::test]
async fn a_message_that_is_large_after_decompression_is_refused() {
    let yaml = format!("gateway: {{decompressed_max: 1048576}}\n{ECHO}");
    let target = Target::up(&yaml, &["gateway", "echo"]);
    let zeros = gzipped(&vec![0; 64 << 20]);
    assert!(zeros.len() < 100_000);
    let connection = Connection::open(target.flow.port()).await;
    for path in [SINGLE, CALL] {
        target.sends(zeros.len());
        let answer = connection.call_compressed(path, zeros.clone()).await;
        assert_ne!(answer.status, 0);
        assert!(answer.message.contains("1048576"), "{}", answer.message);
    }
    target.survived(32).await;
}

fn with_header(change: impl Fn(&mut HeaderProto)) -> Envelope {
    let mut request = texts("/any", &["x"]);
    change(request.header.as_mut().unwrap());
    request
}

#[tokio::test]
async fn long_texts_in_a_header_fail_their_own_request_and_no_other() {
    let target = target();
    let parameters = Bytes::from(vec![0; 2 << 20]);
    let attacks = [
        (
            with_header(|it| it.exec_endpoint = Some("/".repeat(70_000))),
            "exec_endpoint",
        ),
        (
            with_header(|it| it.target_executor = Some("a|".repeat(400_000))),
            "target_executor",
        ),
        (
            with_header(|it| it.request_id = "x".repeat(70_000)),
            "request_id",
        ),
        (
            Envelope {
                parameters: Some(parameters),
                ..texts("/any", &["x"])
            },
            "parameters",
        ),
    ];
    for (attack, part) in attacks {
        target.sends(encoded(&attack).len());
        let mut requests = vec![texts("/any", &["bystander"]); 50];
        requests.insert(25, attack);
        let mut replies = post(&target.flow, requests).await;
        let refused = replies.remove(25);
        let expected = format!("`{part}` has ");
        assert!(failure(&refused).starts_with(&expected), "{refused:?}");
        assert!(replies.iter().all(|it| it.texts == ["bystander"]));
    }
    target.survived(64).await;
}

#[tokio::test]
async fn a_long_regular_expression_is_refused_before_it_is_parsed() {
    let target = target();
    let long = with_header(|it| it.target_executor = Some("(a|b)".repeat(200_000)));
    target.sends(encoded(&long).len());
    let reply = client(&target.flow)
        .await
        .single(long, Deadline::NEVER)
        .await;
    // The header is larger than any header may be, so that not even the text is decoded.
    let said = reply.map(|reply| said(&reply));
    let text = said.map_or_else(|failure| failure.to_string(), |it| failure(&it).to_owned());
    assert!(text.len() < 300, "{}", text.len());
    target.survived(32).await;
}

#[tokio::test]
async fn an_expired_timeout_is_reported_as_such() {
    let target = target();
    let connection = Connection::open(target.flow.port()).await;
    let request = encoded(&texts("/any", &["x"]));
    let answer = connection
        .call_with(SINGLE, request, &[("grpc-timeout", "1n")])
        .await;
    // DEADLINE_EXCEEDED, and not CANCELLED.
    assert_eq!(answer.status, 4, "{}", answer.message);
}
