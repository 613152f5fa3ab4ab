//! `monitoring: true`: what each process counts, and where it is read.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;

use flow_tests::{
    DocArrayVersion, Program, TestFlow, flow_command, free_port, post, python, scrape, send, texts,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::FAULTY;

/// Names of a gateway's numbers, and of an executor's, with their types: first those of Jina.
const OF_GATEWAY: &[(&str, &str)] = &[
    ("jina_receiving_request_seconds", "summary"),
    ("jina_sending_request_seconds", "summary"),
    ("jina_received_response_bytes", "summary"),
    ("jina_sent_request_bytes", "summary"),
    ("jina_received_request_bytes", "summary"),
    ("jina_request_size_bytes", "summary"),
    ("jina_sent_response_bytes", "summary"),
    ("jina_number_of_pending_requests", "gauge"),
    ("jina_successful_requests", "counter"),
    ("jina_failed_requests", "counter"),
    ("flow_request_duration_seconds", "histogram"),
    ("flow_request_queue_duration_seconds", "histogram"),
    ("flow_requests_in_flight", "gauge"),
    ("flow_requests_in_flight_max", "gauge"),
    ("flow_requests_refused", "counter"),
    ("flow_request_memory_bytes", "gauge"),
    ("flow_request_memory_max_bytes", "gauge"),
    ("flow_connections", "gauge"),
    ("flow_node_duration_seconds", "histogram"),
    ("flow_node_retries", "counter"),
    ("flow_node_hedges", "counter"),
    ("flow_node_hedges_won", "counter"),
    ("flow_replicas", "gauge"),
    ("flow_replica_ejections", "counter"),
];
const OF_EXECUTOR: &[(&str, &str)] = &[
    ("jina_receiving_request_seconds", "summary"),
    ("jina_successful_requests", "counter"),
    ("jina_failed_requests", "counter"),
    ("jina_process_request_seconds", "summary"),
    ("jina_document_processed", "counter"),
    ("jina_received_request_bytes", "summary"),
    ("jina_request_size_bytes", "summary"),
    ("jina_sent_response_bytes", "summary"),
    ("jina_marking_seconds", "summary"),
    ("flow_queue_duration_seconds", "histogram"),
    ("flow_queue_requests", "gauge"),
    ("flow_queue_bytes", "gauge"),
    ("flow_batch_documents", "histogram"),
    ("flow_batches", "counter"),
    ("flow_call_duration_seconds", "histogram"),
    ("flow_serialize_duration_seconds", "histogram"),
];
/// Those of every process.
const OF_PROCESS: &[(&str, &str)] = &[
    ("process_cpu_seconds", "counter"),
    ("process_resident_memory_bytes", "gauge"),
    ("process_virtual_memory_bytes", "gauge"),
    ("process_open_fds", "gauge"),
    ("process_max_fds", "gauge"),
    ("process_threads", "gauge"),
    ("process_start_time_seconds", "gauge"),
    ("flow_build_info", "gauge"),
];

/// The URL of the gateway's metrics, by its ready event.
pub(crate) fn of_gateway(flow: &TestFlow) -> String {
    let address = flow.program().ready().metrics.unwrap();
    format!("http://127.0.0.1:{}/metrics", address.port())
}

/// Where an executor's are, by the line that says it is ready, the last of them.
pub(crate) fn of_executor(flow: &TestFlow, name: &str) -> String {
    let lines = flow.program().lines().into_iter().rev();
    let ready = format!("{name}@");
    let mut ready = lines.filter(|line| line.text.starts_with(&ready));
    let line = ready.next().unwrap().text;
    let (_, url) = line.split_once("metrics ").unwrap();
    url.trim_end_matches(')').to_owned()
}

fn faulty() -> TestFlow {
    TestFlow::up(&format!(
        "with: {{monitoring: true}}\nexecutors: [{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}}}]"
    ))
}

async fn ask(flow: &TestFlow) {
    let mark = || texts("/mark", &["a", "b"]);
    let said = post(flow, vec![mark(), mark(), mark(), texts("/fail", &["c"])]).await;
    assert_eq!(said[2].texts, ["a!", "b!"]);
    assert!(said[3].failure.is_some());
}

#[tokio::test]
async fn each_process_counts_what_it_does_by_jinas_names() {
    let flow = faulty();
    ask(&flow).await;

    let gateway = scrape(&of_gateway(&flow));
    let total = |name: &str| gateway.get(&format!("jina_{name}{{runtime_name=\"gateway/rep-0\"}}"));
    assert_eq!(total("successful_requests_total"), 3);
    assert_eq!(total("failed_requests_total"), 1);
    assert_eq!(total("number_of_pending_requests"), 0);
    assert_eq!(total("received_request_bytes_count"), 4);
    assert_eq!(total("sending_request_seconds_count"), 4);

    let faulty = scrape(&of_executor(&flow, "faulty"));
    let total = |name: &str| faulty.get(&format!("jina_{name}{{runtime_name=\"faulty/rep-0\"}}"));
    assert_eq!(total("successful_requests_total"), 3);
    assert_eq!(total("failed_requests_total"), 1);
    assert_eq!(total("receiving_request_seconds_count"), 4);
    assert_eq!(total("marking_seconds_count"), 6, "one for each text");
    let of = |name: &str, endpoint: &str| {
        faulty.get(&format!(
            "jina_{name}{{executor_endpoint=\"{endpoint}\",executor=\"FaultyExecutor\",runtime_name=\"faulty/rep-0\"}}"
        ))
    };
    for (endpoint, calls, documents) in [("/mark", 3, 6), ("/fail", 1, 0), ("/slow", 0, 0)] {
        assert_eq!(of("process_request_seconds_count", endpoint), calls);
        assert_eq!(of("received_request_bytes_count", endpoint), calls);
        assert_eq!(of("document_processed_total", endpoint), documents);
    }
    assert_eq!(of("sent_response_bytes_count", "/fail"), 0);
    // What the gateway sends is what the executor receives, byte by byte, and the other way.
    let sent = |name: &str| gateway.get(&format!("jina_{name}{{runtime_name=\"gateway/rep-0\"}}"));
    let received =
        of("received_request_bytes_sum", "/mark") + of("received_request_bytes_sum", "/fail");
    assert_eq!(sent("sent_request_bytes_sum"), received);
    assert!(of("sent_response_bytes_sum", "/mark") < sent("received_response_bytes_sum"));
}

/// What Prometheus' own client reads, in its text format or in OpenMetrics.
pub(crate) fn read_by_prometheus(url: &str, arguments: &[&str]) -> Option<Value> {
    let arguments = [&[url], arguments].concat();
    let arguments: Vec<String> = arguments.iter().map(|&it| it.to_owned()).collect();
    python(DocArrayVersion::V2, "metrics.py", &arguments)
}

/// The names of what was read, with their types.
fn types(read: &Value) -> BTreeSet<(&str, &str)> {
    let families = read["families"].as_object().unwrap().iter();
    let types = families.map(|(name, it)| (name.as_str(), it["type"].as_str().unwrap()));
    types.collect()
}

/// The sets of labels that samples have, without `le`.
fn labels(read: &Value) -> BTreeSet<BTreeSet<&str>> {
    let families = read["families"].as_object().unwrap().values();
    let samples = families.flat_map(|it| it["samples"].as_array().unwrap());
    let labels = samples.map(|sample| sample[1].as_object().unwrap().keys());
    labels
        .map(|keys| keys.map(String::as_str).filter(|it| *it != "le").collect())
        .collect()
}

#[tokio::test]
async fn prometheus_own_client_reads_what_is_shown() {
    let flow = faulty();
    ask(&flow).await;
    let check = |url: &str, expected: &[(&str, &str)], expected_labels: &[&[&str]]| {
        let formats = [
            (&[][..], "text/plain; version=0.0.4; charset=utf-8"),
            (
                &["open"][..],
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
        ];
        for (format, kind) in formats {
            let Some(read) = read_by_prometheus(url, format) else {
                return;
            };
            assert_eq!(read["kind"], kind);
            let all = expected.iter().chain(OF_PROCESS).copied();
            assert_eq!(types(&read), all.collect());
            let all = [&["runtime_name"][..], &["runtime_name", "version"]];
            let all = all.iter().chain(expected_labels);
            let all = all.map(|it| it.iter().copied().collect());
            assert_eq!(labels(&read), all.collect());
        }
    };
    let of_gateway_labels: &[&[&str]] = &[
        &["api", "endpoint", "code", "runtime_name"],
        &["node", "runtime_name"],
        &["node", "state", "runtime_name"],
        &["reason", "runtime_name"],
    ];
    check(&of_gateway(&flow), OF_GATEWAY, of_gateway_labels);
    let of_executor_labels: &[&[&str]] = &[
        &["executor_endpoint", "executor", "runtime_name"],
        &["executor_endpoint", "runtime_name"],
        &["executor_endpoint", "reason", "runtime_name"],
    ];
    let executor = of_executor(&flow, "faulty");
    check(&executor, OF_EXECUTOR, of_executor_labels);
}

#[tokio::test]
async fn each_stage_measures_each_request_once() {
    let flow = faulty();
    ask(&flow).await;

    let gateway = scrape(&of_gateway(&flow));
    let ended = |part: &str, endpoint: &str, code: &str| {
        gateway.get(&format!(
            "flow_request_duration_seconds_{part}api=\"grpc\",endpoint=\"{endpoint}\",code=\"{code}\",\
             runtime_name=\"gateway/rep-0\"{}",
            if part.starts_with("bucket") { ",le=\"+Inf\"}" } else { "}" }
        ))
    };
    for part in ["count{", "bucket{"] {
        assert_eq!(ended(part, "/mark", "ok"), 3);
        assert_eq!(ended(part, "/fail", "executor_failed"), 1);
    }
    let of = |name: &str, labels: &str| {
        gateway.get(&format!(
            "flow_{name}{{{labels}runtime_name=\"gateway/rep-0\"}}"
        ))
    };
    assert_eq!(of("request_queue_duration_seconds_count", ""), 4);
    assert_eq!(of("node_duration_seconds_count", "node=\"faulty\","), 4);
    assert_eq!(of("requests_in_flight", ""), 0);
    assert_eq!(of("request_memory_bytes", ""), 0);
    assert!(of("request_memory_max_bytes", "") > 0);
    assert_eq!(of("replicas", "node=\"faulty\",state=\"ready\","), 1);
    assert_eq!(of("replicas", "node=\"faulty\",state=\"ejected\","), 0);

    let faulty = scrape(&of_executor(&flow, "faulty"));
    let of = |name: &str, labels: &str| {
        faulty.get(&format!(
            "flow_{name}{{{labels}runtime_name=\"faulty/rep-0\"}}"
        ))
    };
    for (endpoint, calls, documents) in [("/mark", 3, 6), ("/fail", 1, 1), ("/slow", 0, 0)] {
        let labels = format!("executor_endpoint=\"{endpoint}\",");
        assert_eq!(of("queue_duration_seconds_count", &labels), calls);
        assert_eq!(of("call_duration_seconds_count", &labels), calls);
        assert_eq!(of("batch_documents_count", &labels), calls);
        assert_eq!(of("batch_documents_sum", &labels), documents);
        let labels = format!("{labels}reason=\"alone\",");
        assert_eq!(of("batches_total", &labels), calls);
    }
    assert_eq!(of("serialize_duration_seconds_count", ""), 3);
    assert_eq!((of("queue_requests", ""), of("queue_bytes", "")), (0, 0));
}

#[tokio::test]
async fn retries_and_ejections_are_counted_when_replicas_die() {
    let flow = TestFlow::up(&format!(
        "with: {{monitoring: true}}\nexecutors: [{{name: faulty, uses: {FAULTY}, replicas: 2, idempotent: true}}]"
    ));
    flow.expect("replica cannot be reached").expect("faulty");
    // Each process that works on it exits.
    let said = post(&flow, vec![texts("/exit", &["a"])]).await;
    assert!(said[0].failure.is_some(), "{said:?}");
    let gateway = scrape(&of_gateway(&flow));
    let labels = "{node=\"faulty\",runtime_name=\"gateway/rep-0\"}";
    assert!(gateway.get(&format!("flow_node_retries_total{labels}")) >= 1);
    assert!(gateway.get(&format!("flow_replica_ejections_total{labels}")) >= 1);
    // The flow is as before when the test ends.
    let said = post(&flow, vec![texts("/mark", &["b"])]).await;
    assert_eq!(said[0].texts, ["b"]);
}

#[tokio::test]
async fn requests_that_share_a_call_are_one_call_and_other_endpoints_are_the_default_one() {
    let flow = TestFlow::up(
        "with: {monitoring: true}\nexecutors: [{name: echo, uses: echo, uses_dynamic_batching: \
         {/default: {preferred_batch_size: 4, timeout: 3600000}}}]",
    );
    let request = |text| texts("/of-the-clients-own", &[text]);
    let requests = ["a", "b", "c", "d"].map(request).to_vec();
    post(&flow, requests).await;
    let echo = scrape(&of_executor(&flow, "echo"));
    let of_default =
        "{executor_endpoint=\"/default\",executor=\"Echo\",runtime_name=\"echo/rep-0\"}";
    let get = |name: &str| echo.get(&format!("jina_{name}{of_default}"));
    assert_eq!(get("process_request_seconds_count"), 1);
    assert_eq!(get("document_processed_total"), 4);
    assert_eq!(get("received_request_bytes_count"), 4);
    let of_default = |reason: &str| {
        let labels = format!("executor_endpoint=\"/default\",reason=\"{reason}\"");
        echo.get(&format!(
            "flow_batches_total{{{labels},runtime_name=\"echo/rep-0\"}}"
        ))
    };
    assert_eq!((of_default("full"), of_default("timeout")), (1, 0));
    let batch =
        "flow_batch_documents_sum{executor_endpoint=\"/default\",runtime_name=\"echo/rep-0\"}";
    assert_eq!(echo.get(batch), 4);
    let gateway = scrape(&of_gateway(&flow));
    assert!(
        gateway
            .names()
            .any(|name| name.contains("endpoint=\"other\""))
    );
    assert!(!gateway.names().any(|name| name.contains("clients-own")));
    assert!(!echo.names().any(|name| name.contains("clients-own")));
}

#[tokio::test]
async fn a_batch_that_does_not_fill_up_leaves_at_its_timeout() {
    let flow = TestFlow::up(
        "with: {monitoring: true}\nexecutors: [{name: echo, uses: echo, uses_dynamic_batching: \
         {/default: {preferred_batch_size: 4, timeout: 1}}}]",
    );
    post(&flow, vec![texts("/any", &["a"])]).await;
    let echo = scrape(&of_executor(&flow, "echo"));
    let labels = "executor_endpoint=\"/default\",reason=\"timeout\",runtime_name=\"echo/rep-0\"";
    assert_eq!(echo.get(&format!("flow_batches_total{{{labels}}}")), 1);
}

#[tokio::test]
async fn a_restarted_process_serves_its_metrics_on_the_same_port() {
    let (fixed, other) = (free_port(), free_port());
    let flow = TestFlow::up(&format!(
        "with: {{monitoring: true, port_monitoring: {other}}}\nexecutors: [{{name: a, uses: echo, replicas: 2, \
         port_monitoring: [{fixed}]}}]"
    ));
    flow.expect("process died and is restarted")
        .expect("replica cannot be reached")
        .expect("is alone at its port");
    assert_eq!(
        of_gateway(&flow),
        format!("http://127.0.0.1:{other}/metrics")
    );
    let replicas = ["a/rep-0", "a/rep-1"];
    let before = replicas.map(|name| of_executor(&flow, name));
    assert_eq!(before[0], format!("http://127.0.0.1:{fixed}/metrics"));
    let began =
        |url: &str| scrape(url).seconds("process_start_time_seconds{runtime_name=\"a/rep-1\"}");
    let first = began(&before[1]);
    for name in replicas {
        let seen = flow.program().lines().len();
        send(flow.pid(name), Signal::KILL);
        flow.program().line_from(seen, &format!("{name}@"));
    }
    assert_eq!(replicas.map(|name| of_executor(&flow, name)), before);
    let runtime = "jina_successful_requests_total{runtime_name=\"a/rep-1\"}";
    assert_eq!(scrape(&before[1]).get(runtime), 0);
    assert!(began(&before[1]) > first, "this is how a restart shows");

    // A new process cannot take the port beside the old one.
    let seen = flow.program().lines().len();
    let mut restart = flow_command();
    restart.env("XDG_STATE_HOME", flow.folder().join("state"));
    restart.args(["restart", "a/rep-0"]);
    let (code, restarted) = Program::run(restart);
    assert_eq!(code, Some(0), "{}", restarted.said());
    flow.program().line_from(seen, "a/rep-0@");
    assert_eq!(of_executor(&flow, "a/rep-0"), before[0]);
}

#[test]
fn a_flow_that_is_not_monitored_shows_nothing() {
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    assert!(!flow.program().said().to_lowercase().contains("metrics"));
}

#[test]
fn a_taken_metrics_port_is_reported_with_its_owner_and_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let fails = |yaml: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        fs::write(&file, format!("jtype: Flow\n{yaml}")).unwrap();
        let mut command = flow_command();
        command.env("XDG_STATE_HOME", folder.path());
        command.arg("up").arg(&file).args(["--port", "0"]);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(1), "{}", program.said());
        program.stderr()
    };
    let output = fails(&format!(
        "with: {{monitoring: true, port_monitoring: {port}, host: 127.0.0.1}}\nexecutors: [{{uses: echo}}]"
    ));
    let part = format!("port {port} is taken: process {}", std::process::id());
    assert!(output.contains(&part), "{output}");
    assert!(
        output.contains("write another `port_monitoring`"),
        "{output}"
    );
    let output = fails(&format!(
        "executors: [{{name: a, uses: echo, monitoring: true, port_monitoring: {port}}}]"
    ));
    let part = format!("(`port_monitoring`): cannot listen on `127.0.0.1:{port}`");
    assert!(output.contains(&part), "{output}");
}

#[test]
fn a_standalone_executor_serves_metrics_on_request() {
    let mut command = flow_command();
    command.args([
        "executor",
        "--uses",
        "echo",
        "--name",
        "enc",
        "--monitoring",
        "--log",
        "json",
    ]);
    let program = Program::start(command);
    let address = program.ready().metrics.unwrap();
    let numbers = scrape(&format!("http://{address}/metrics"));
    let name = "jina_successful_requests_total{runtime_name=\"enc/rep-0\"}";
    assert_eq!(numbers.get(name), 0);
}

/// The log names it too, for programs.
#[test]
fn the_ready_line_in_json_says_where() {
    let flow = TestFlow::up_with(
        "with: {monitoring: true}\nexecutors: [{name: echo, uses: echo}]",
        &["--log", "json"],
    );
    let line = flow.program().line("\"process\":\"echo\"");
    let line: Value = serde_json::from_str(&line).unwrap();
    let url = line["metrics"].as_str().unwrap();
    assert_ne!(json!(scrape(url).names().count()), json!(0));
}
