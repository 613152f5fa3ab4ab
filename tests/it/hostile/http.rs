//! Attacks over HTTP/1, HTTP/2 and WebSocket: bodies, heads and frames.

use std::time::Duration;

use flow_tests::raw::gzipped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Target;

/// Time in which a gateway on a busy machine reads what it has memory for.
const TAKEN_WITHIN: Duration = Duration::from_millis(100);

/// What a gateway with [`SMALL`] may take while messages are begun, in MiB: twice its 32 MiB and a quarter, and the program's own.
/// It holds that once, and the allocator returns the memory of messages that were refused a little later. Peaks of 48 to 92 MB
/// were measured.
const TAKEN_MAX: u64 = 2 * 40 + 48;

const ECHO: &str = "executors: [{name: echo, uses: echo}]";

/// The memory of the gateway for requests and replies.
const SMALL: &str = "gateway: {memory_max: 33554432, decompressed_max: 8388608}\nexecutors: [{name: echo, uses: echo}]";

fn target(yaml: &str) -> Target {
    Target::up(yaml, &["gateway", "echo"])
}

pub(super) async fn connect(target: &Target) -> TcpStream {
    let address = ("127.0.0.1", target.flow.port());
    TcpStream::connect(address).await.unwrap()
}

/// Sends bytes and returns all that comes back until the gateway closes the connection.
pub(super) async fn exchange(target: &Target, bytes: &[u8]) -> String {
    let mut stream = connect(target).await;
    target.sends(bytes.len());
    // The gateway may answer and close before it has read all.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request with this body, after which the connection closes.
pub(super) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {len}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(super) fn status(answer: &str) -> u16 {
    let number = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    number.unwrap_or_else(|| panic!("no HTTP reply: {answer:?}"))
}

#[tokio::test]
async fn a_compressed_body_does_not_fill_the_memory() {
    let target = target(SMALL);
    let bomb = gzipped(&vec![b' '; 200 << 20]);
    for path in ["/post", "/v1/embeddings", "/embed", "/v2/embed", "/search"] {
        let answer = exchange(&target, &post(path, "content-encoding: gzip\r\n", &bomb)).await;
        assert_eq!(status(&answer), 413, "{path}: {answer}");
    }
    target.survived(64).await;
}

#[tokio::test]
async fn json_that_is_nested_deeply_is_refused() {
    let target = target(ECHO);
    let lists = "[".repeat(1 << 20);
    let chunks = r#"{"chunks": ["#.repeat(100_000);
    let bodies = [
        lists.clone(),
        format!(r#"{{"data": {lists}"#),
        format!(r#"{{"data": [{chunks}"#),
        format!(r#"{{"parameters": {{"a": {lists}"#),
        format!(r#"{{"input": {lists}"#),
        format!(r#"{{"data": [{{"tags": {lists}"#),
    ];
    for path in ["/post", "/v1/embeddings", "/embed"] {
        for body in &bodies {
            let answer = exchange(&target, &post(path, "", body.as_bytes())).await;
            let status = status(&answer);
            assert!((400..500).contains(&status), "{path}: {answer}");
        }
    }
    target.survived(64).await;
}

#[tokio::test]
async fn many_empty_documents_are_refused() {
    let target = target(SMALL);
    let documents = "{},".repeat(2_500_000);
    let body = format!(r#"{{"data": [{documents}{{}}]}}"#);
    let answer = exchange(&target, &post("/post", "", body.as_bytes())).await;
    assert_eq!(status(&answer), 413, "{answer}");
    target.survived(64).await;
}

#[tokio::test]
async fn a_long_head_is_refused() {
    let target = target(ECHO);
    let value = "x".repeat(1 << 20);
    let one = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-long: {value}\r\n\r\n");
    let many = "x-a: b\r\n".repeat(100_000);
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let path = format!("GET /{value} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    for head in [one, many, path] {
        let answer = exchange(&target, head.as_bytes()).await;
        // A connection that is cut while the client still writes may lose the reply.
        if !answer.is_empty() {
            assert!([400, 414, 431].contains(&status(&answer)), "{answer}");
        }
    }
    target.survived(32).await;
}

#[tokio::test]
async fn a_head_with_two_lengths_is_refused() {
    let target = target(ECHO);
    let smuggled = "0\r\n\r\nGET /status HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let heads = [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "content-length: +5\r\n",
        "content-length: 99999999999999999999999\r\n",
    ];
    for head in heads {
        let request = format!("POST /post HTTP/1.1\r\nhost: localhost\r\n{head}\r\n{smuggled}");
        let answer = exchange(&target, request.as_bytes()).await;
        assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    target.survived(32).await;
}

#[tokio::test]
async fn bodies_that_are_announced_and_never_sent_hold_no_memory() {
    let target = target(ECHO);
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(&target).await;
        let head = "POST /post HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    content-length: 60000000\r\n\r\n{\"data\": [";
        target.sends(head.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    target.survived(32).await;
}

#[tokio::test]
async fn bodies_that_are_begun_count_in_the_memory_of_all() {
    let target = target(SMALL);
    let mut waiting = Vec::new();
    let part = vec![b' '; 6 << 20];
    target.sends(30 * part.len());
    for _ in 0..30 {
        let mut stream = connect(&target).await;
        let head = "POST /post HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    content-length: 8000000\r\n\r\n";
        let send = async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&part).await
        };
        // The gateway stops reading when its budget is full.
        drop(taken_at_once(send).await);
        waiting.push(stream);
    }
    target.fits(TAKEN_MAX);
    drop(waiting);
    target.survived(400).await;
}

#[tokio::test]
async fn requests_in_a_row_without_reading_replies_hold_little_memory() {
    let target = target(SMALL);
    let body = format!(r#"{{"data": [{{"text": "{}"}}]}}"#, "x".repeat(1 << 20));
    let head = format!(
        "POST /post HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let request = [head, body].concat();
    let mut stream = connect(&target).await;
    for _ in 0..100 {
        target.sends(request.len());
        let write = stream.write_all(request.as_bytes());
        if taken_at_once(write).await.is_none() {
            break;
        }
    }
    target.survived(96).await;
}

/// Begins a WebSocket, and returns it after the gateway has agreed.
pub(super) async fn websocket(target: &Target) -> TcpStream {
    let mut stream = connect(target).await;
    let head = "GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream
}

/// The result of a write that the gateway accepts at once; `None` if it did not, because its budget is full.
pub(super) async fn taken_at_once<T>(write: impl Future<Output = T>) -> Option<T> {
    timeout(TAKEN_WITHIN, write).await.ok()
}

/// The head of a client's frame. Its mask is zero, so that the content stays as it is.
pub(super) fn frame_head(first: u8, len: u64) -> Vec<u8> {
    let mut head = vec![first, 0x80 | 127];
    head.extend(len.to_be_bytes());
    head.extend([0; 4]);
    head
}

pub(super) const TEXT: u8 = 0x81;
const TEXT_BEGINS: u8 = 0x01;
const CONTINUES: u8 = 0x00;

#[tokio::test]
async fn frames_that_are_begun_count_in_the_memory_of_all() {
    let target = target(SMALL);
    let mut waiting = Vec::new();
    let part = vec![b' '; 6 << 20];
    target.sends(60 * part.len());
    for _ in 0..60 {
        let mut stream = websocket(&target).await;
        let send = async {
            stream.write_all(&frame_head(TEXT, 8_000_000)).await?;
            stream.write_all(&part).await
        };
        // The gateway stops reading when its budget is full.
        drop(taken_at_once(send).await);
        waiting.push(stream);
    }
    target.fits(TAKEN_MAX);
    drop(waiting);
    // The allocator keeps some of what connections that ended had.
    target.survived(400).await;
}

#[tokio::test]
async fn frames_that_are_too_long_are_refused() {
    let target = target(SMALL);
    for len in [9 << 20, 1 << 40, u64::MAX] {
        let mut stream = websocket(&target).await;
        stream.write_all(&frame_head(TEXT, len)).await.unwrap();
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        // A close frame, or nothing.
        assert!(answer.is_empty() || answer[0] == 0x88, "{answer:?}");
    }
    target.survived(32).await;
}

#[tokio::test]
async fn a_message_of_endless_parts_is_refused() {
    let target = target(SMALL);
    let mut stream = websocket(&target).await;
    let part = vec![b' '; 64 << 10];
    let mut first = TEXT_BEGINS;
    for _ in 0..1000 {
        let frame = [frame_head(first, part.len() as u64), part.clone()].concat();
        target.sends(frame.len());
        if stream.write_all(&frame).await.is_err() {
            break;
        }
        first = CONTINUES;
    }
    target.survived(64).await;
}

#[tokio::test]
async fn frames_that_are_no_requests_get_an_answer_each() {
    let target = target(ECHO);
    let nested = "[".repeat(100_000);
    for text in ["", "null", "[]", "{", nested.as_str(), "{\"data\": 5}"] {
        let mut stream = websocket(&target).await;
        let frame = [frame_head(TEXT, text.len() as u64), text.into()].concat();
        stream.write_all(&frame).await.unwrap();
        assert!(matches!(stream.read_u8().await, Ok(TEXT | 0x88)), "{text}");
    }
    target.survived(32).await;
}

#[tokio::test]
async fn a_flood_of_pings_does_not_disturb_other_clients() {
    let target = target(ECHO);
    let mut stream = websocket(&target).await;
    // 125 bytes in each.
    let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[0; 125]].concat();
    let flood = ping.repeat(1000);
    for _ in 0..200 {
        target.sends(flood.len());
        // Their answers are not read.
        let write = stream.write_all(&flood);
        let wrote = taken_at_once(write).await;
        if !matches!(wrote, Some(Ok(()))) {
            break;
        }
    }
    target.survived(32).await;
}
