//! A gateway that stops tells each client to close its connection.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::fake_executor::FakeExecutor;
use crate::test_gateway::{TestGateway, placement, plan};

/// The beginning of a connection of HTTP/2: the preface, and empty settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// The kind of a frame of HTTP/2 that says that no further stream is accepted.
const GOAWAY: u8 = 7;

#[tokio::test]
async fn the_answer_of_a_connection_of_http_1_says_that_it_closes() {
    let gate = Arc::new(Semaphore::new(0));
    let executor = FakeExecutor::gated(gate.clone()).await;
    // Otherwise, the answer may be sent before the connection knows of the end.
    let gateway = TestGateway::on_one_thread(placement(plan(&["node"]), &[&executor])).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let body = r#"{"data": [{"text": "a"}], "execEndpoint": "/any"}"#;
    let head = "POST /post HTTP/1.1\r\nhost: a\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    executor.was_called(1).await;
    gateway.drain.begin();
    gate.add_permits(1);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_lowercase().contains("connection: close"), "{head}");
    assert!(body.contains(r#""text":"a""#), "{body}");
}

#[tokio::test]
async fn an_idle_connection_of_http_1_is_closed() {
    let executor = FakeExecutor::echo().await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&executor])).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let request = "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start[..9], b"HTTP/1.1 ");
    gateway.drain.begin();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn a_connection_of_http_2_gets_a_goaway_before_its_end() {
    let executor = FakeExecutor::echo().await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&executor])).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(HTTP2).await.unwrap();
    // The gateway's settings: the connection is one of HTTP/2 from here on.
    let mut kinds = vec![frame(&mut stream).await.unwrap()];
    gateway.drain.begin();
    while let Some(kind) = frame(&mut stream).await {
        kinds.push(kind);
    }
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
}

/// The kind of the next frame; `None` at the end of the connection.
async fn frame(stream: &mut TcpStream) -> Option<u8> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(len).unwrap()];
    stream.read_exact(&mut payload).await.ok()?;
    Some(head[3])
}
