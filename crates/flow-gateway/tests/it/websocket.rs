//! Jina's requests over WebSocket, over real sockets.

use flow_core::DocumentArray;
use flow_gateway::GatewayLimits;
use flow_net::ConnectionLimits;
use flow_proto::Envelope;
use futures_util::{SinkExt, StreamExt};
use prost::Message as _;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::fake_executor::FakeExecutor;
use crate::http_client::get;
use crate::test_gateway::{TestGateway, placement, plan, request};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn gateway(executor: &FakeExecutor) -> TestGateway {
    TestGateway::start(placement(plan(&["node"]), &[executor])).await
}

async fn connect(gateway: &TestGateway, path: &str, protocol: Option<&str>) -> Socket {
    let url = format!("ws://{}{path}", gateway.address);
    let mut request = url.into_client_request().unwrap();
    if let Some(protocol) = protocol {
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", protocol.parse().unwrap());
    }
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (socket, response) = match protocol {
        // The answer names no sub-protocol, as that of Jina, which this client takes for an error.
        Some(_) => return unchecked(stream, gateway, path).await,
        None => connect_async(request).await.unwrap(),
    };
    assert!(!response.headers().contains_key("sec-websocket-protocol"));
    socket
}

/// A WebSocket with the sub-protocol `bytes`, whose handshake is plain text.
async fn unchecked(mut stream: TcpStream, gateway: &TestGateway, path: &str) -> Socket {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: bytes\r\n\r\n",
        gateway.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(!answer.contains("sec-websocket-protocol"), "{answer}");
    let role = tokio_tungstenite::tungstenite::protocol::Role::Client;
    WebSocketStream::from_raw_socket(MaybeTlsStream::Plain(stream), role, None).await
}

/// The code with which the server closes.
async fn close_code(socket: &mut Socket) -> u16 {
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
            Some(Ok(_)) => {}
            other => panic!("no close frame, but {other:?}"),
        }
    }
}

#[tokio::test]
async fn requests_as_protobuf_get_their_replies_and_end_with_a_zero_byte() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo).await;
    let mut socket = connect(&gateway, "/", Some("bytes")).await;
    for id in ["a", "b"] {
        let sent = request("/any", &[id]);
        socket
            .send(Message::Binary(sent.encode_to_vec().into()))
            .await
            .unwrap();
    }
    socket.send(Message::Binary(vec![0].into())).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let Some(Ok(Message::Binary(reply))) = socket.next().await else {
            panic!("no reply");
        };
        let reply = Envelope::decode(reply).unwrap();
        assert_eq!(reply.routes[0].executor, "gateway");
        let documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
        ids.push(documents.iter().next().unwrap().id());
    }
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(close_code(&mut socket).await, 1000);
}

#[tokio::test]
async fn requests_as_json_get_replies_in_snake_case_and_end_with_an_empty_object() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo).await;
    let mut socket = connect(&gateway, "/", None).await;
    let sent = json!({"data": [{"text": "a", "tags": {"a": 1}}], "execEndpoint": "/any", "header": {"requestId": "r"}});
    socket.send(Message::text(sent.to_string())).await.unwrap();
    let Some(Ok(Message::Text(reply))) = socket.next().await else {
        panic!("no reply");
    };
    let reply: Value = serde_json::from_str(&reply).unwrap();
    assert_eq!(reply["header"]["request_id"], "r");
    assert_eq!(reply["data"][0]["tags"], json!({"a": 1}));
    assert!(reply["routes"][0]["start_time"].is_string());
    socket.send(Message::text("{")).await.unwrap();
    let Some(Ok(Message::Text(reply))) = socket.next().await else {
        panic!("no reply");
    };
    let reply: Value = serde_json::from_str(&reply).unwrap();
    let text = reply["header"]["status"]["description"].as_str().unwrap();
    assert!(text.contains("not valid JSON"), "{text}");
    socket.send(Message::text("{}")).await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1000);
}

#[tokio::test]
async fn a_dry_run_is_a_status() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo).await;
    let mut socket = connect(&gateway, "/dry_run", Some("bytes")).await;
    socket
        .send(Message::Binary(Vec::new().into()))
        .await
        .unwrap();
    let Some(Ok(Message::Binary(status))) = socket.next().await else {
        panic!("no status");
    };
    assert!(status.is_empty(), "success is no bytes");
    let mut socket = connect(&gateway, "/dry_run", None).await;
    let Some(Ok(Message::Text(status))) = socket.next().await else {
        panic!("no status");
    };
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["code"], 0);
}

#[tokio::test]
async fn a_shutdown_finishes_requests_and_closes_with_1001() {
    let echo = FakeExecutor::echo().await;
    let mut gateway = gateway(&echo).await;
    let mut socket = connect(&gateway, "/", None).await;
    socket
        .send(Message::text(json!({"data": []}).to_string()))
        .await
        .unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    gateway.drain.begin();
    assert_eq!(close_code(&mut socket).await, 1001);
    drop(socket);
    // Nothing is left that the gateway would wait for.
    gateway.stopped().await;
}

#[tokio::test]
async fn a_message_that_is_too_large_closes_with_1009() {
    let echo = FakeExecutor::echo().await;
    let mut limits = GatewayLimits::default();
    limits.messages.message_len_max = 1000;
    let placement = placement(plan(&["node"]), &[&echo]);
    let gateway = TestGateway::start_with(placement, limits).await;
    let mut socket = connect(&gateway, "/", None).await;
    socket.send(Message::text("x".repeat(2000))).await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1009);
}

#[tokio::test]
async fn a_websocket_counts_as_a_connection_and_is_closed_when_it_is_idle() {
    let echo = FakeExecutor::echo().await;
    let limits = |idle_max| GatewayLimits {
        connections: ConnectionLimits {
            connections_max: NonZeroUsize::new(2),
            per_address_max: NonZeroUsize::new(2),
            idle_max,
            ..ConnectionLimits::default()
        },
        ..GatewayLimits::default()
    };
    let placement = || placement(plan(&["node"]), &[&echo]);
    // The client of `start_with` has one connection, and the WebSocket another.
    let gateway = TestGateway::start_with(placement(), limits(None)).await;
    let mut socket = connect(&gateway, "/", None).await;
    socket
        .send(Message::text(json!({"data": []}).to_string()))
        .await
        .unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    let third = TcpStream::connect(gateway.address).await.unwrap();
    let mut byte = [0];
    third.readable().await.unwrap();
    assert!(
        matches!(third.try_read(&mut byte), Ok(0) | Err(_)),
        "it is closed"
    );

    let idle_max = Some(Duration::from_millis(300));
    let gateway = TestGateway::start_with(placement(), limits(idle_max)).await;
    let mut socket = connect(&gateway, "/", None).await;
    assert_eq!(close_code(&mut socket).await, 1001);
    drop(socket);
    assert_eq!(get(&gateway, "/").await.status, 200);
}
