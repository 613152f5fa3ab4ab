//! The metrics of a gateway, read as Prometheus reads them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_gateway::{Config, Gateway, GatewayBindError, GatewayLimits};
use flow_net::grpc::jina_discover_endpoints_rpc_client::JinaDiscoverEndpointsRpcClient;
use flow_otlp::ExportSettings;
use flow_proto::Envelope;
use flow_spec::NodeAddresses;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::fake_executor::{FakeExecutor, did_not_run};
use crate::test_gateway::{TestGateway, address, error, placement, placement_at, plan, request};
use crate::topology::tonic_client;

/// The label of all metrics, which is the last one.
const RUNTIME: &str = "runtime_name=\"gateway/rep-0\"";

/// The metrics of `gateway/rep-0`, by their names without `jina_`, with their other labels.
pub(crate) async fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, text) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.contains(RUNTIME), "{name}");
        let name = name.replace(&format!("{{{RUNTIME}}}"), "");
        let name = name.replace(&format!(",{RUNTIME}"), "");
        let name = name.strip_prefix("jina_").unwrap_or(&name);
        (name.to_owned(), value.parse().unwrap())
    };
    samples.map(sample).collect()
}

#[track_caller]
fn check(numbers: &BTreeMap<String, f64>, expected: &[(&str, usize)]) {
    for (name, expected) in expected {
        #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
        let expected = *expected as f64;
        assert_eq!(numbers[*name], expected, "{name}: {numbers:#?}");
    }
}

/// How many requests to `/x`, which no executor offers by its name, ended like this.
fn ended(code: &str) -> String {
    format!(
        "flow_request_duration_seconds_count{{api=\"grpc\",endpoint=\"other\",code=\"{code}\"}}"
    )
}

fn total_len(messages: &[Envelope]) -> usize {
    messages.iter().map(Message::encoded_len).sum()
}

#[tokio::test]
async fn requests_are_counted_with_their_encoded_sizes() {
    let echo = FakeExecutor::echo().await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&echo])).await;
    let ids: Vec<String> = (0..7).map(|id| id.to_string()).collect();
    let requests: Vec<Envelope> = ids.iter().map(|id| request("/x", &[id, "y"])).collect();
    let replies = gateway.post(requests.clone()).await;
    let calls: Vec<Envelope> = echo.calls().iter().map(|it| it.parts[0].clone()).collect();
    let numbers = scrape(gateway.metrics).await;
    check(
        &numbers,
        &[
            ("successful_requests_total", 7),
            ("failed_requests_total", 0),
            ("number_of_pending_requests", 0),
            ("receiving_request_seconds_count", 7),
            ("received_request_bytes_count", 7),
            ("received_request_bytes_sum", total_len(&requests)),
            ("request_size_bytes_sum", total_len(&requests)),
            ("sent_response_bytes_count", 7),
            ("sent_response_bytes_sum", total_len(&replies)),
            ("sending_request_seconds_count", 7),
            ("sent_request_bytes_sum", total_len(&calls)),
            // The node returns what it got.
            ("received_response_bytes_sum", total_len(&calls)),
            (&ended("ok"), 7),
            ("flow_request_queue_duration_seconds_count", 7),
            ("flow_node_duration_seconds_count{node=\"node\"}", 7),
            ("flow_node_retries_total{node=\"node\"}", 0),
            ("flow_replicas{node=\"node\",state=\"ready\"}", 1),
            ("flow_replicas{node=\"node\",state=\"slow\"}", 0),
            ("flow_replicas{node=\"node\",state=\"failing\"}", 0),
            ("flow_replicas{node=\"node\",state=\"ejected\"}", 0),
            ("flow_requests_in_flight", 0),
            ("flow_connections", 1),
        ],
    );
    assert!(numbers["flow_requests_in_flight_max"] > 0.0);
    assert!(numbers["receiving_request_seconds_sum"] >= numbers["sending_request_seconds_sum"]);
    assert!(numbers["sending_request_seconds_sum"] > 0.0);
}

#[tokio::test]
async fn failures_are_counted_and_each_try_is_a_call() {
    let sick = FakeExecutor::failing(did_not_run("not today")).await;
    let places = [NodeAddresses::replicas(vec![
        address(&sick),
        address(&sick),
    ])];
    let gateway = TestGateway::start(placement_at(plan(&["sick"]), &places)).await;
    let replies = gateway.post(vec![request("/x", &["1"])]).await;
    assert_ne!(error(&replies[0]), "");
    let tries = sick.calls().len();
    assert!(tries > 1, "{tries}");
    let numbers = scrape(gateway.metrics).await;
    check(
        &numbers,
        &[
            ("successful_requests_total", 0),
            ("failed_requests_total", 1),
            ("number_of_pending_requests", 0),
            ("receiving_request_seconds_count", 0),
            ("received_request_bytes_count", 1),
            ("sent_response_bytes_count", 0),
            ("sending_request_seconds_count", tries),
            ("sent_request_bytes_count", tries),
            ("received_response_bytes_count", 0),
            ("flow_node_retries_total{node=\"sick\"}", tries - 1),
            ("flow_node_duration_seconds_count{node=\"sick\"}", 1),
            ("flow_replicas{node=\"sick\",state=\"ready\"}", 0),
            ("flow_replicas{node=\"sick\",state=\"ejected\"}", 2),
            ("flow_replica_ejections_total{node=\"sick\"}", 2),
            (&ended("unavailable"), 1),
        ],
    );
}

#[tokio::test]
async fn a_request_is_pending_until_its_reply_or_until_its_client_disconnects() {
    let gate = Arc::new(Semaphore::new(0));
    let node = FakeExecutor::gated(gate.clone()).await;
    let mut flow = plan(&["node"]);
    flow.gateway.in_flight_max = 1.try_into().unwrap();
    let gateway = TestGateway::start(placement(flow, &[&node])).await;
    let pending = async || {
        let numbers = scrape(gateway.metrics).await;
        check(&numbers, &[("flow_requests_in_flight_max", 1)]);
        let pending = numbers["number_of_pending_requests"];
        assert_eq!(numbers["flow_requests_in_flight"], pending);
        pending
    };

    let first = gateway.single(request("/x", &["1"]));
    let meanwhile = async {
        node.was_called(1).await;
        assert!((pending().await - 1.0).abs() < f64::EPSILON);
        let mut client = tonic_client(&gateway).await;
        let refused = client.process_single_data(request("/x", &["2"])).await;
        assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted);
        let endpoint = Endpoint::from_shared(gateway.url.replace("grpc", "http")).unwrap();
        let connection = endpoint.connect().await.unwrap();
        let mut questions = JinaDiscoverEndpointsRpcClient::new(connection);
        let refused = questions.endpoint_discovery(()).await;
        assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted);
        gate.add_permits(1);
    };
    let (reply, ()) = tokio::join!(first, meanwhile);
    assert_eq!(error(&reply.unwrap()), "");
    let (ok, overloaded, cancelled) = (ended("ok"), ended("overloaded"), ended("cancelled"));
    let counted = [
        ("successful_requests_total", 1),
        ("failed_requests_total", 1),
        // The request and the question.
        ("flow_requests_refused_total{reason=\"in_flight_max\"}", 2),
        (&ok, 1),
        (&overloaded, 1),
        // Refused requests do not wait.
        ("flow_request_queue_duration_seconds_count", 1),
    ];
    check(&scrape(gateway.metrics).await, &counted);

    let mut client = tonic_client(&gateway).await;
    let abandoned = client.process_single_data(request("/x", &["3"]));
    tokio::select! {
        _ = abandoned => panic!("the node has no permit for it"),
        () = node.was_called(2) => {}
    }
    drop(client);
    while scrape(gateway.metrics).await["number_of_pending_requests"] > 0.0 {
        tokio::task::yield_now().await;
    }
    let counted = [
        ("successful_requests_total", 1),
        ("failed_requests_total", 2),
        (&cancelled, 1),
    ];
    check(&scrape(gateway.metrics).await, &counted);
}

#[tokio::test]
async fn calls_of_shards_are_counted_and_counts_survive_a_new_placement() {
    let fakes = [FakeExecutor::echo().await, FakeExecutor::echo().await];
    let shards = || {
        let shards = fakes.iter().map(|it| vec![address(it)]).collect();
        let places = NodeAddresses {
            shards,
            ..NodeAddresses::default()
        };
        placement_at(plan(&["node, shards: 2, polling: ALL"]), &[places])
    };
    let gateway = TestGateway::start(shards()).await;
    gateway.post(vec![request("/x", &["1"])]).await;
    drop(gateway.placements.place(shards()).unwrap());
    gateway.post(vec![request("/x", &["2"])]).await;
    let numbers = scrape(gateway.metrics).await;
    check(
        &numbers,
        &[
            ("successful_requests_total", 2),
            ("sending_request_seconds_count", 4),
            ("sent_request_bytes_count", 4),
        ],
    );
}

#[tokio::test]
async fn an_unmonitored_gateway_has_no_metrics_port_and_a_taken_port_is_an_error() {
    let echo = FakeExecutor::echo().await;
    let config = |monitoring| Config {
        host: "127.0.0.1".to_owned(),
        port: 0,
        more_ports: Vec::new(),
        threads: NonZeroUsize::new(2).unwrap(),
        limits: GatewayLimits::default(),
        monitoring,
        tls: None,
        export: ExportSettings::default(),
        api_keys: None,
        jwt: None,
        supervisor: None,
        colocated: [].into(),
    };
    let bind = async |monitoring| {
        let placement = placement(plan(&["node"]), &[&echo]);
        Gateway::bind(&config(monitoring), placement).await
    };
    assert_eq!(bind(None).await.unwrap().metrics_addr(), None);
    let taken = echo.address.port();
    let error = bind(Some(taken)).await.unwrap_err();
    assert!(matches!(error, GatewayBindError::Metrics(_)), "{error}");
    let message = flow_core::Chain(&error).to_string();
    let part = format!("(`port_monitoring`): cannot listen on `127.0.0.1:{taken}`");
    assert!(message.contains(&part), "{message}");
}
