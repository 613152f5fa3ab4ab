//! The tokens a day that an API key allows, over every protocol.

use std::time::{Duration, Instant};

use flow_core::{Code, Deadline, Failure, Tensor, Usage};
use flow_gateway::auth::{ApiKeys, KeyEntry, KeyFile};
use flow_net::{ApiKey, Client, ConnectOptions, PostOptions, write_usage};
use flow_proto::Envelope;
use futures_util::{SinkExt, StreamExt, stream};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tonic::Response;

use crate::fake_executor::{Call, FakeExecutor, documents, first};
use crate::http_client::{Answer, request as http};
use crate::test_gateway::{TestGateway, placement, plan, request};

const KEY: &str = "flow_few";

/// A gateway with one key, and an executor that makes vectors and counts a token for each document.
struct Fixture {
    gateway: TestGateway,
    _keys: NamedTempFile,
    _executor: FakeExecutor,
}

impl Fixture {
    async fn start(tokens_per_day: u64) -> Self {
        let entry = KeyEntry {
            tokens_per_day: Some(tokens_per_day),
            ..KeyEntry::new("few", KEY)
        };
        let keys = NamedTempFile::new().unwrap();
        let content = KeyFile { keys: vec![entry] };
        std::fs::write(keys.path(), content.to_yaml()).unwrap();
        let executor = FakeExecutor::start(|call| async { Ok(counted(call)) }).await;
        let mut plan = plan(&["node"]);
        let node = plan.nodes[0].name.clone();
        plan.gateway.models.insert("model".to_owned(), node.into());
        let api_keys = ApiKeys {
            file: keys.path().to_owned(),
            for_health: false,
        };
        let gateway = TestGateway::with_keys(placement(plan, &[&executor]), api_keys).await;
        Self {
            gateway,
            _keys: keys,
            _executor: executor,
        }
    }

    async fn client(&self) -> Client {
        let options = ConnectOptions {
            api_key: Some(ApiKey::new(KEY).unwrap()),
            ..ConnectOptions::default()
        };
        let client = Client::connect_with(&self.gateway.url, options).await;
        client.unwrap()
    }

    async fn single(&self) -> Result<Envelope, Failure> {
        let soon = Deadline::after(Instant::now(), Some(Duration::from_secs(20)));
        let client = self.client().await;
        client.single(request("/encode", &["a", "b"]), soon).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [("x-api-key", KEY), ("content-type", "application/json")];
        let body = body.to_string();
        http(&self.gateway, "POST", path, &headers, body.as_bytes()).await
    }
}

/// The documents with vectors, and a token for each.
fn counted(call: Call) -> Response<Envelope> {
    let mut reply = first(call);
    let mut documents = documents(reply.get_ref());
    for document in &mut documents {
        document.set_embedding(&Tensor::vector(&[1.0]));
    }
    reply.get_mut().data = Some(documents.encode());
    let usage = Usage {
        tokens: documents.len() as u64,
        cached_texts: None,
    };
    write_usage(reply.metadata_mut(), usage);
    reply
}

#[track_caller]
fn check(failure: &Failure) {
    assert_eq!(failure.code(), Code::Overloaded, "{failure}");
    let message = failure.message();
    assert!(message.contains("allows 3 tokens a day"), "{failure}");
}

#[tokio::test]
async fn a_call_that_takes_the_last_tokens_is_answered_and_the_next_is_refused() {
    let fixture = Fixture::start(3).await;
    for _ in 0..2 {
        assert!(fixture.single().await.is_ok());
    }
    check(&fixture.single().await.unwrap_err());
    let metrics = fixture.gateway.metrics_text().await;
    for expected in [
        "flow_key_tokens_total{key=\"few\",runtime_name=\"gateway/rep-0\"} 4\n",
        "flow_requests_refused_total{reason=\"tokens_per_day\",runtime_name=\"gateway/rep-0\"} 1\n",
    ] {
        assert!(metrics.contains(expected), "{metrics}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_no_tokens_are_left() {
    let fixture = Fixture::start(3).await;
    let options = PostOptions {
        prefetch: Some(1),
        results_in_order: true,
        ..PostOptions::default()
    };
    let requests = (0..5).map(|_| request("/encode", &["a", "b"]));
    let client = fixture.client().await;
    let replies = client.post(&options, stream::iter(requests)).await.unwrap();
    let replies: Vec<_> = replies.collect().await;
    assert_eq!(replies.len(), 3, "{replies:?}");
    assert!(replies[0].is_ok() && replies[1].is_ok(), "{replies:?}");
    check(replies[2].as_ref().unwrap_err());
}

#[tokio::test]
async fn a_websocket_is_closed_when_no_tokens_are_left() {
    let fixture = Fixture::start(3).await;
    let url = format!("ws://{}/", fixture.gateway.address);
    let mut handshake = url.into_client_request().unwrap();
    handshake
        .headers_mut()
        .insert("x-api-key", KEY.parse().unwrap());
    let (mut socket, _) = connect_async(handshake).await.unwrap();
    let text = json!({"data": [{"text": "a"}, {"text": "b"}], "execEndpoint": "/encode"});
    for _ in 0..2 {
        let frame = Message::text(text.to_string());
        socket.send(frame).await.unwrap();
        let reply = socket.next().await.unwrap().unwrap();
        assert!(reply.is_text(), "{reply:?}");
    }
    socket.send(Message::text(text.to_string())).await.unwrap();
    let Message::Close(Some(close)) = socket.next().await.unwrap().unwrap() else {
        panic!("it stays open");
    };
    assert!(close.reason.contains("allows 3 tokens"), "{close:?}");
}

#[tokio::test]
async fn every_http_api_refuses_in_its_own_format_and_says_when_tokens_are_available_again() {
    let fixture = Fixture::start(3).await;
    // More texts than one piece has: a call that was let in is answered in full.
    let texts: Vec<String> = (0..150).map(|it| format!("text {it}")).collect();
    let answer = fixture.post("/embed", &json!({"inputs": texts})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let cohere = json!({
        "model": "model", "texts": ["a"], "input_type": "search_query", "embedding_types": ["float"],
    });
    let infer = json!({
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}],
    });
    for (path, body, message) in [
        ("/v1/embeddings", json!({"input": "a"}), "/error/message"),
        ("/embed", json!({"inputs": "a"}), "/error"),
        ("/v2/embed", cohere, "/message"),
        ("/v2/models/model/infer", infer, "/error"),
        (
            "/post",
            json!({"data": [{"text": "a"}], "execEndpoint": "/encode"}),
            "/detail",
        ),
    ] {
        let answer = fixture.post(path, &body).await;
        assert_eq!(answer.status, 429, "{path}: {}", answer.text());
        let after = answer.header("retry-after").parse().unwrap_or(0);
        assert!((1..=86_400_u64).contains(&after), "{path}: {after}");
        let body = answer.json();
        let text = body.pointer(message).map(Value::to_string);
        let text = text.unwrap_or_else(|| panic!("{path}: {body}"));
        assert!(text.contains("allows 3 tokens a day"), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_key_without_tokens_left_may_still_ask_about_the_flow() {
    let fixture = Fixture::start(0).await;
    check_zero(&fixture.single().await.unwrap_err());
    let headers = [("x-api-key", KEY)];
    for path in ["/v1/models", "/status", "/info"] {
        let answer = http(&fixture.gateway, "GET", path, &headers, b"").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

fn check_zero(failure: &Failure) {
    assert!(failure.message().contains("allows 0 tokens"), "{failure}");
}
