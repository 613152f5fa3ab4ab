//! `monitoring: true`: what each process counts, and where it is read.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;

use flow_tests::{
    DocArrayVersion, Program, TestFlow, flow_command, free_port, post, python, scrape, send, texts,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::MOODY;

/// Names of a gateway's numbers, and of an executor's, with their types: those of Jina's.
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

fn moody() -> TestFlow {
    TestFlow::up(&format!(
        "with: {{monitoring: true}}\nexecutors: [{{name: moody, uses: {MOODY}, uses_with: {{mark: '!'}}}}]"
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
    let flow = moody();
    ask(&flow).await;

    let gateway = scrape(&of_gateway(&flow));
    let total = |name: &str| gateway.get(&format!("jina_{name}{{runtime_name=\"gateway/rep-0\"}}"));
    assert_eq!(total("successful_requests_total"), 3);
    assert_eq!(total("failed_requests_total"), 1);
    assert_eq!(total("number_of_pending_requests"), 0);
    assert_eq!(total("received_request_bytes_count"), 4);
    assert_eq!(total("sending_request_seconds_count"), 4);

    let moody = scrape(&of_executor(&flow, "moody"));
    let total = |name: &str| moody.get(&format!("jina_{name}{{runtime_name=\"moody/rep-0\"}}"));
    assert_eq!(total("successful_requests_total"), 3);
    assert_eq!(total("failed_requests_total"), 1);
    assert_eq!(total("receiving_request_seconds_count"), 4);
    assert_eq!(total("marking_seconds_count"), 6, "one for each text");
    let of = |name: &str, endpoint: &str| {
        moody.get(&format!(
            "jina_{name}{{executor_endpoint=\"{endpoint}\",executor=\"Moody\",runtime_name=\"moody/rep-0\"}}"
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

#[tokio::test]
async fn prometheus_own_client_reads_what_is_shown() {
    let flow = moody();
    ask(&flow).await;
    let check = |url: String, expected: &[(&str, &str)], labels: &[&[&str]]| {
        let Some(read) = python(DocArrayVersion::V2, "metrics.py", &[url]) else {
            return;
        };
        assert_eq!(read["kind"], "text/plain; version=0.0.4; charset=utf-8");
        let families = read["families"].as_object().unwrap();
        let types = families.iter();
        let types: BTreeSet<(&str, &str)> = types
            .map(|(name, it)| (name.as_str(), it["type"].as_str().unwrap()))
            .collect();
        assert_eq!(types, expected.iter().copied().collect());
        let samples = families
            .values()
            .flat_map(|it| it["samples"].as_array().unwrap());
        let found: BTreeSet<Vec<&str>> = samples
            .map(|sample| {
                let labels = sample[1].as_object().unwrap().keys();
                labels.map(String::as_str).collect()
            })
            .collect();
        assert_eq!(found, labels.iter().map(|it| it.to_vec()).collect());
    };
    check(of_gateway(&flow), OF_GATEWAY, &[&["runtime_name"]]);
    let of_endpoint: &[_] = &["executor_endpoint", "executor", "runtime_name"];
    let executor = of_executor(&flow, "moody");
    check(executor, OF_EXECUTOR, &[&["runtime_name"], of_endpoint]);
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
    assert!(!echo.names().any(|name| name.contains("clients-own")));
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
    for name in replicas {
        let seen = flow.program().lines().len();
        send(flow.pid(name), Signal::KILL);
        flow.program().line_from(seen, &format!("{name}@"));
    }
    assert_eq!(replicas.map(|name| of_executor(&flow, name)), before);
    let runtime = "jina_successful_requests_total{runtime_name=\"a/rep-1\"}";
    assert_eq!(scrape(&before[1]).get(runtime), 0);

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
