//! What clients send to the built-in executors: small requests that ask for much work, or for large replies.

use bytes::Bytes;
use flow_core::{Document, DocumentArray, Tensor};
use flow_proto::Envelope;
use flow_tests::raw::{Connection, SINGLE, encoded, gzipped};
use flow_tests::{eventually, post, request, texts};
use prost::Message;
use serde_json::json;

use super::Target;
use super::documents::{message, refused, with_data};

fn document(id: &str, text: &str) -> Document {
    let mut document = Document::from_text(text);
    document.set_id(id);
    document.set_embedding(&Tensor::vector(&[1.0, 0.0]));
    document
}

/// A request with these documents.
fn with_documents(endpoint: &str, documents: Vec<Document>) -> Envelope {
    let documents: DocumentArray = documents.into_iter().collect();
    with_data(endpoint, documents.encode())
}

/// Sends a request to the gateway, which has to be refused for this reason.
async fn is_refused(target: &Target, request: &Envelope, reason: &str) {
    let failure = refused(target, target.flow.port(), request).await;
    assert!(failure.contains(reason), "{failure}");
}

const INDEX: &str = "executors: [{name: index, uses: vector-index, host: 127.0.0.1}]";

fn index() -> Target {
    let target = Target::up(INDEX, &["gateway", "index"]);
    target.flow.expect("there is no `workspace`");
    target
}

#[tokio::test]
async fn a_shape_without_bytes_takes_no_memory() {
    let target = index();
    let mut bomb = document("bomb", "");
    let shape = Tensor::from_parts(vec![64 << 20], "<f4".into(), Bytes::new());
    bomb.set_embedding(&shape);
    for endpoint in ["/index", "/search"] {
        let request = with_documents(endpoint, vec![bomb.clone()]);
        assert!(encoded(&request).len() < 600);
        let reason = "has the shape of 67108864 values, and 0 bytes of them";
        is_refused(&target, &request, reason).await;
    }
    target.survived(32).await;
}

#[tokio::test]
async fn a_score_that_is_no_number_is_refused_and_later_searches_work() {
    // `scores["own"].value` of DocArray v1 is NaN.
    const SCORES: &[u8] = b"\x92\x01\x0c\x0a\x03own\x12\x05\x0d\x00\x00\xc0\x7f";
    let target = index();
    let bad = [&document("bad", "bad").encode()[..], SCORES].concat();
    let data = message(&[(1, &message(&[(1, &bad)]))]);
    is_refused(&target, &with_data("/index", data), "not finite").await;
    let good = with_documents("/index", vec![document("good", "good")]);
    let search = with_documents("/search", vec![document("query", "query")]);
    for reply in post(&target.flow, vec![good, search]).await {
        assert_eq!(reply.failure, None);
    }
    target.survived(32).await;
}

#[tokio::test]
async fn one_large_document_is_a_match_of_only_so_many_queries() {
    let target = index();
    let large = with_documents("/index", vec![document("large", &"x".repeat(10 << 20))]);
    let reply = post(&target.flow, vec![large]).await.remove(0);
    assert_eq!(reply.failure, None);
    let queries = (0..10_000).map(|id| document(&id.to_string(), ""));
    let search = with_documents("/search", queries.collect());
    is_refused(&target, &search, "more than 268435456 bytes").await;
    target.survived(128).await;
}

const SEGMENTER: &str = "executors: [{name: segmenter, uses: segmenter}]";

#[tokio::test]
async fn chunks_repeat_a_text_and_its_id_only_so_often() {
    let target = Target::up(SEGMENTER, &["gateway", "segmenter"]);
    let parameters = json!({"by": "words", "max_words": 1000, "overlap": 999});
    let text = "word ".repeat(400_000);
    let overlaps = request("/segment", &[&text], &parameters);
    is_refused(&target, &overlaps, "more than 16 times").await;
    let long_id = document(&"i".repeat(200_000), &"A. ".repeat(25_000));
    let long_id = with_documents("/segment", vec![long_id]);
    is_refused(&target, &long_id, "the chunks of this call").await;
    target.survived(128).await;
}

const ENCODER: &str = "executors: [{name: encoder, uses: sentence-encoder, host: 127.0.0.1}]";

fn encoder() -> Target {
    Target::up(ENCODER, &["gateway", "encoder"])
}

#[tokio::test]
async fn a_long_text_keeps_no_other_client_of_an_encoder_waiting() {
    let target = encoder();
    let long = "word ".repeat(4 << 20);
    let request = encoded(&texts("/encode", &[&long]));
    let connection = Connection::open(target.flow.port()).await;
    target.sends(request.len());
    let (answer, ()) = tokio::join!(connection.call(SINGLE, request), target.survived(256));
    let reply = Envelope::decode(answer.messages[0].clone()).unwrap();
    assert_eq!(flow_tests::said(&reply).failure, None);
    target.survived(256).await;
}

#[tokio::test]
async fn tokens_are_shown_of_texts_that_are_not_too_long() {
    let target = encoder();
    let long = texts("/to_tokens", &[&"word ".repeat(4 << 20)]);
    is_refused(&target, &long, "more than 262144 bytes").await;
    let marks = texts("/to_tokens", &[&"!".repeat(256 << 10)]);
    is_refused(&target, &marks, "more than 131072 tokens").await;
    let mut ids = Document::new();
    ids.set_tags(json!({"ids": vec![0; 1 << 20]}).as_object().unwrap());
    let ids = with_documents("/from_tokens", vec![ids]);
    is_refused(&target, &ids, "more than 8388608 bytes").await;
    target.survived(256).await;
}

/// Seconds that a process has computed.
fn cpu_seconds(pid: u32) -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |place: usize| fields[place].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

#[tokio::test]
async fn work_of_a_client_that_has_gone_is_not_computed() {
    let target = encoder();
    let pid = target.flow.pid("encoder");
    let text = "some words of a text that a model reads ".repeat(6);
    let request = encoded(&texts("/encode", &vec![text.as_str(); 20_000]));
    target.sends(request.len());
    let before = cpu_seconds(pid);
    let connection = Connection::open(target.flow.port()).await;
    let computes = tokio::task::spawn_blocking(move || {
        let is_computing = || cpu_seconds(pid) > before + 1.0;
        eventually("the encoder computes", is_computing);
    });
    tokio::select! {
        _ = connection.call(SINGLE, request) => panic!("the client goes before it has its reply"),
        computes = computes => computes.unwrap(),
    }
    drop(connection);
    target.survived(256).await;
}

/// Parameters that become as many structs as possible: a list of this many empty values.
fn nulls(count: usize) -> Bytes {
    let list = b"\x0a\x00".repeat(count);
    let value = message(&[(6, &list)]);
    let entry = message(&[(1, b"list"), (2, &value)]);
    message(&[(1, &entry)])
}

/// Sends a compressed request, and says why it was refused.
async fn compressed(target: &Target, port: u16, request: &Envelope) -> Option<String> {
    let request = gzipped(&request.encode_to_vec());
    target.sends(request.len());
    let connection = Connection::open(port).await;
    let answer = connection.call_compressed(SINGLE, request).await;
    match answer.messages.first() {
        None => Some(answer.message),
        Some(reply) => flow_tests::said(&Envelope::decode(reply.clone()).unwrap()).failure,
    }
}

#[tokio::test]
async fn compressed_documents_and_parameters_do_not_fill_the_memory() {
    let yaml = "executors: [{name: echo, uses: echo, host: 127.0.0.1}]";
    let target = Target::up(yaml, &["gateway", "echo"]);
    let empty = Bytes::from(b"\x0a\x00".repeat(15_000_000));
    let documents = with_data("/any", message(&[(1, &empty)]));
    let with_parameters = |parameters| Envelope {
        parameters: Some(parameters),
        ..texts("/any", &["x"])
    };
    let too_many = with_parameters(nulls(15_000_000));
    // The most that is accepted.
    let many = with_parameters(nulls(520_000));
    for port in [target.flow.port(), target.port_of("echo")] {
        let failure = compressed(&target, port, &documents).await.unwrap();
        assert!(failure.contains("more than 250000 documents"), "{failure}");
        let failure = compressed(&target, port, &too_many).await.unwrap();
        assert!(failure.contains("`parameters` has "), "{failure}");
        assert_eq!(compressed(&target, port, &many).await, None);
    }
    target.survived(256).await;
}
