//! The context of a trace, over every protocol, on its way to an executor.

use flow_core::Deadline;
use flow_net::grpc::jina_rpc_client::JinaRpcClient;
use flow_net::grpc::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient;
use futures_util::{SinkExt, StreamExt, stream};
use prost::Message as _;
use serde_json::json;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tonic::Request;
use tonic::transport::Channel;

use crate::fake_executor::FakeExecutor;
use crate::test_gateway::{TestGateway, placement, plan, request};

/// What a client sends of its trace.
const CONTEXT: [(&str, &str); 3] = [
    (
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
    ("tracestate", "client=1"),
    ("baggage", "tenant=blue,plan=free"),
];

const UNARY: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";

fn with_context<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    for (key, value) in CONTEXT {
        request.metadata_mut().insert(key, value.parse().unwrap());
    }
    request
}

async fn channel(gateway: &TestGateway) -> Channel {
    let url = format!("http://{}", gateway.address);
    Channel::from_shared(url).unwrap().connect().await.unwrap()
}

async fn unary(gateway: &TestGateway) {
    let mut client = JinaSingleDataRequestRpcClient::new(channel(gateway).await);
    let request = with_context(request("/any", &["a"]));
    client.process_single_data(request).await.unwrap();
}

async fn streamed(gateway: &TestGateway) {
    let mut client = JinaRpcClient::new(channel(gateway).await);
    let requests = with_context(stream::iter([request("/any", &["a"])]));
    let replies = client.call(requests).await.unwrap().into_inner();
    assert_eq!(replies.count().await, 1);
}

async fn over_http(gateway: &TestGateway) {
    let body = json!({"data": [{"text": "a"}], "execEndpoint": "/any"}).to_string();
    let json = ("content-type", "application/json");
    let headers = [&[json][..], &CONTEXT].concat();
    let port = gateway.first_port();
    let answer = port.request("POST", "/post", &headers, body.as_bytes());
    assert_eq!(answer.await.status, 200);
}

async fn events(gateway: &TestGateway) {
    let body = json!({"data": {"text": "a"}}).to_string();
    let json = ("content-type", "application/json");
    let accept = ("accept", "text/event-stream");
    let headers = [&[json, accept][..], &CONTEXT].concat();
    let port = gateway.first_port();
    let answer = port.request("GET", "/write", &headers, body.as_bytes());
    let answer = answer.await;
    assert!(answer.text().contains("event: update"), "{answer:?}");
}

async fn web_socket(gateway: &TestGateway) {
    let url = format!("ws://{}/", gateway.address);
    let mut handshake = url.into_client_request().unwrap();
    for (key, value) in CONTEXT {
        handshake.headers_mut().insert(key, value.parse().unwrap());
    }
    let (mut socket, _) = connect_async(handshake).await.unwrap();
    let text = json!({"data": [{"text": "a"}], "execEndpoint": "/any"}).to_string();
    socket.send(Message::text(text)).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap().is_text());
}

async fn grpc_web(gateway: &TestGateway) {
    let message = request("/any", &["a"]).encode_to_vec();
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    let kind = ("content-type", "application/grpc-web+proto");
    let headers = [&[kind][..], &CONTEXT].concat();
    let answer = gateway.first_port().request("POST", UNARY, &headers, &body);
    assert_eq!(answer.await.status, 200);
}

/// Calls an executor by way of a gateway, and looks at what arrives there.
async fn check(name: &str, call: impl AsyncFnOnce(&TestGateway)) {
    let executor = FakeExecutor::generating("/write").await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&executor])).await;
    // The gateway learns which endpoints stream.
    gateway.client.endpoints(Deadline::NEVER).await.unwrap();
    call(&gateway).await;
    let calls = executor.calls();
    assert_eq!(calls.len(), 1, "{name}");
    for (key, value) in CONTEXT {
        let found = calls[0].metadata.get(key).map(|it| it.to_str().unwrap());
        assert_eq!(found, Some(value), "{key} over {name}");
    }
}

#[tokio::test]
async fn a_trace_and_its_baggage_reach_executors_over_every_protocol() {
    check("gRPC", unary).await;
    check("a stream of gRPC", streamed).await;
    check("HTTP", over_http).await;
    check("server-sent events", events).await;
    check("WebSocket", web_socket).await;
    check("gRPC-Web", grpc_web).await;
}
