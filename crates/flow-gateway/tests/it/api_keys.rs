//! API keys at a gateway, over gRPC and HTTP.

use std::time::{Duration, Instant, SystemTime};

use flow_core::{Code, Deadline, Failure};
use flow_gateway::auth::{ApiKeys, KeyEntry, KeyFile};
use flow_net::grpc::inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use flow_net::{ApiKey, Client, ConnectOptions, PostOptions};
use flow_proto::Envelope;
use flow_proto::inference::{ModelInferRequest, ServerLiveRequest};
use futures_util::{StreamExt, stream};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Request;
use tonic::transport::Channel;

use crate::fake_executor::FakeExecutor;
use crate::http_client::get;
use crate::test_gateway::{TestGateway, placement, plan, request};

/// A gateway with these keys, and an executor that returns what it gets.
struct Fixture {
    gateway: TestGateway,
    file: NamedTempFile,
    echo: FakeExecutor,
}

impl Fixture {
    async fn start(keys: Vec<KeyEntry>) -> Self {
        Self::with_health(keys, false).await
    }

    async fn with_health(keys: Vec<KeyEntry>, for_health: bool) -> Self {
        let file = NamedTempFile::new().unwrap();
        write(&file, keys);
        let echo = FakeExecutor::echo().await;
        let api_keys = ApiKeys {
            file: file.path().to_owned(),
            for_health,
        };
        let placement = placement(plan(&["node"]), &[&echo]);
        let gateway = TestGateway::with_keys(placement, api_keys).await;
        Self {
            gateway,
            file,
            echo,
        }
    }

    async fn client(&self, key: Option<&str>) -> Client {
        let options = ConnectOptions {
            api_key: key.map(|key| ApiKey::new(key).unwrap()),
            ..ConnectOptions::default()
        };
        Client::connect_with(&self.gateway.url, options)
            .await
            .unwrap()
    }

    /// A client of the Open Inference Protocol.
    async fn inference(&self) -> GrpcInferenceServiceClient<Channel> {
        let address = self.gateway.url.replace("grpc://", "http://");
        let channel = Channel::from_shared(address).unwrap();
        GrpcInferenceServiceClient::new(channel.connect().await.unwrap())
    }

    /// Sends one request with a key.
    async fn single(&self, key: Option<&str>, endpoint: &str) -> Result<Envelope, Failure> {
        let client = self.client(key).await;
        client.single(request(endpoint, &["a", "b"]), soon()).await
    }

    /// The response to an HTTP request with these headers.
    async fn get(&self, path: &str, headers: &str) -> String {
        let address = self.gateway.url.strip_prefix("grpc://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }
}

fn soon() -> Deadline {
    Deadline::after(Instant::now(), Some(Duration::from_secs(20)))
}

fn write(file: &NamedTempFile, keys: Vec<KeyEntry>) {
    std::fs::write(file.path(), KeyFile { keys }.to_yaml()).unwrap();
}

fn key(name: &str) -> KeyEntry {
    KeyEntry::new(name, &format!("flow_{name}"))
}

#[track_caller]
fn check(outcome: Result<Envelope, Failure>, code: Code, message: &str) {
    let failure = outcome.unwrap_err();
    assert_eq!(failure.code(), code, "{failure}");
    assert!(failure.message().contains(message), "{failure}");
}

#[tokio::test]
async fn the_page_on_routes_needs_no_key_but_the_document_does() {
    let fixture = Fixture::start(vec![]).await;
    for (path, status) in [
        ("/docs", 200),
        ("/docs/start.js", 200),
        ("/docs/swagger-ui-bundle.js", 200),
        ("/docs/swagger-ui.css", 200),
        ("/docs/favicon-32x32.png", 200),
        ("/docs/other", 401),
        ("/openapi.json", 401),
    ] {
        assert_eq!(get(&fixture.gateway, path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_grpc_call_needs_a_key_that_is_known_and_has_not_expired() {
    let expired = KeyEntry {
        expires: Some(SystemTime::UNIX_EPOCH),
        ..key("old")
    };
    let fixture = Fixture::start(vec![key("team"), expired]).await;
    assert!(fixture.single(Some("flow_team"), "/x").await.is_ok());
    let refused = fixture.single(None, "/x").await;
    check(refused, Code::Unauthenticated, "needs an API key");
    let refused = fixture.single(Some("flow_other"), "/x").await;
    check(refused, Code::Unauthenticated, "not known here");
    let refused = fixture.single(Some("flow_old"), "/x").await;
    check(refused, Code::Unauthenticated, "`old` has expired");
    assert_eq!(fixture.echo.calls().len(), 1);
}

#[tokio::test]
async fn a_key_calls_only_its_endpoints_on_streams_too() {
    let some = KeyEntry {
        endpoints: Some(vec!["/encode".to_owned()]),
        ..key("some")
    };
    let fixture = Fixture::start(vec![some]).await;
    let client = fixture.client(Some("flow_some")).await;
    assert!(fixture.single(Some("flow_some"), "/encode").await.is_ok());
    let refused = fixture.single(Some("flow_some"), "/other").await;
    check(
        refused,
        Code::Forbidden,
        "does not allow the endpoint `/other`",
    );
    let requests = ["/encode", "/other", "/encode"].map(|it| request(it, &["a"]));
    let options = PostOptions {
        results_in_order: true,
        ..PostOptions::default()
    };
    let replies = client.post(&options, stream::iter(requests)).await.unwrap();
    let replies: Vec<_> = replies.collect().await;
    assert!(replies[0].is_ok() && replies.len() == 2, "{replies:?}");
    assert_eq!(replies[1].as_ref().unwrap_err().code(), Code::Forbidden);
    assert!(client.dry_run(soon()).await.is_ok(), "it runs no endpoint");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let brief = KeyEntry {
        expires: Some(SystemTime::now() + Duration::from_secs(2)),
        ..key("brief")
    };
    let fixture = Fixture::start(vec![brief]).await;
    let client = fixture.client(Some("flow_brief")).await;
    let options = PostOptions {
        results_in_order: true,
        ..PostOptions::default()
    };
    let requests = stream::repeat_with(|| request("/x", &["a"]));
    let mut replies = client.post(&options, requests).await.unwrap();
    assert!(replies.next().await.unwrap().is_ok());
    let refused = async {
        loop {
            if let Err(failure) = replies.next().await.unwrap() {
                break failure;
            }
        }
    };
    let limit = Duration::from_secs(20);
    let failure = tokio::time::timeout(limit, refused).await.unwrap();
    check(
        Err(failure),
        Code::Unauthenticated,
        "the API key `brief` has expired",
    );
}

#[tokio::test]
async fn requests_beyond_the_rate_are_refused_and_streams_wait() {
    let slow = KeyEntry {
        requests_per_second: Some(5.0),
        ..key("slow")
    };
    let fixture = Fixture::start(vec![slow]).await;
    let client = fixture.client(Some("flow_slow")).await;
    let requests: Vec<_> = (0..8).map(|_| request("/x", &["a"])).collect();
    let begun = Instant::now();
    let replies = client
        .post(&PostOptions::default(), stream::iter(requests))
        .await
        .unwrap();
    let replies: Vec<_> = replies.collect().await;
    assert!(replies.len() == 8 && replies.iter().all(Result::is_ok));
    // 5 at once, and 3 at 5 a second.
    assert!(
        begun.elapsed() >= Duration::from_millis(550),
        "{:?}",
        begun.elapsed()
    );
    let mut refused = None;
    while refused.is_none() {
        let outcome = client.single(request("/x", &["a"]), soon()).await;
        refused = outcome.err();
    }
    check(Err(refused.unwrap()), Code::Overloaded, "too many requests");
}

#[tokio::test]
async fn documents_are_counted_over_the_day() {
    let few = KeyEntry {
        documents_per_day: Some(5),
        ..key("few")
    };
    let fixture = Fixture::start(vec![few]).await;
    for _ in 0..2 {
        assert!(fixture.single(Some("flow_few"), "/x").await.is_ok());
    }
    let refused = fixture.single(Some("flow_few"), "/x").await;
    check(refused, Code::Overloaded, "allows 5 documents a day");
}

#[tokio::test]
async fn http_requests_are_refused_in_the_format_of_their_api() {
    let fixture = Fixture::start(vec![key("team")]).await;
    for headers in [
        "x-api-key: flow_team\r\n",
        "Authorization: bearer flow_team\r\n",
    ] {
        let response = fixture.get("/status", headers).await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    let response = fixture.get("/v1/models", "").await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    assert!(response.contains("www-authenticate: Bearer"), "{response}");
    assert!(
        response.contains("\"code\":\"invalid_api_key\""),
        "{response}"
    );
    let response = fixture.get("/info", "x-api-key: wrong\r\n").await;
    assert!(
        response.contains("\"error_type\":\"Unauthorized\""),
        "{response}"
    );
}

#[tokio::test]
async fn an_http_key_is_checked_against_the_path_and_its_rate() {
    let some = KeyEntry {
        endpoints: Some(vec!["/status".to_owned()]),
        requests_per_second: Some(0.01),
        ..key("some")
    };
    let fixture = Fixture::start(vec![some]).await;
    let headers = "x-api-key: flow_some\r\n";
    let response = fixture.get("/dry_run", headers).await;
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    let response = fixture.get("/status", headers).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let response = fixture.get("/status", headers).await;
    assert!(response.starts_with("HTTP/1.1 429"), "{response}");
    assert!(response.contains("retry-after: "), "{response}");
}

#[tokio::test]
async fn health_checks_need_no_key_unless_the_flow_file_requires_one() {
    let fixture = Fixture::start(vec![key("team")]).await;
    let nobody = fixture.client(None).await;
    assert!(nobody.is_serving(soon()).await.is_ok());
    let response = fixture.get("/health", "").await;
    assert!(!response.starts_with("HTTP/1.1 401"), "{response}");
    let closed = Fixture::with_health(vec![key("team")], true).await;
    let nobody = closed.client(None).await;
    let refused = nobody.is_serving(soon()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let response = closed.get("/health", "").await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
}

#[tokio::test]
async fn a_revoked_key_is_refused_soon_and_counts_stay() {
    let fixture = Fixture::start(vec![key("team")]).await;
    let client = fixture.client(Some("flow_team")).await;
    let ask = || client.single(request("/x", &["a"]), soon());
    assert!(ask().await.is_ok());
    write(&fixture.file, vec![key("other")]);
    let refused = async {
        loop {
            if let Err(failure) = ask().await {
                return failure;
            }
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(30), refused).await;
    assert_eq!(refused.unwrap().code(), Code::Unauthenticated);
    let text = fixture.gateway.metrics_text().await;
    let counted = "flow_key_requests_total{key=\"team\",runtime_name=\"gateway/rep-0\"} ";
    assert!(
        text.contains(counted) && text.contains("key=\"other\""),
        "{text}"
    );
    assert!(!text.contains("flow_team"), "{text}");
}

#[tokio::test]
async fn the_open_inference_protocol_needs_a_key_that_allows_its_methods() {
    let limited = KeyEntry {
        endpoints: Some(vec!["/encode".to_owned()]),
        ..key("limited")
    };
    let fixture = Fixture::start(vec![key("team"), limited]).await;
    let mut client = fixture.inference().await;
    let live = client.server_live(ServerLiveRequest {}).await;
    assert!(live.unwrap().get_ref().live, "health is open");
    let request = |key: Option<&str>| {
        let mut request = Request::new(ModelInferRequest::default());
        if let Some(key) = key {
            let bearer = format!("Bearer flow_{key}").parse().unwrap();
            request.metadata_mut().insert("authorization", bearer);
        }
        request
    };
    for (key, code, part) in [
        (None, tonic::Code::Unauthenticated, "needs an API key"),
        (Some("limited"), tonic::Code::PermissionDenied, "limited"),
        (Some("team"), tonic::Code::InvalidArgument, "one input"),
    ] {
        let status = client.model_infer(request(key)).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(part), "{status:?}");
    }
}
