//! Executors in the process of the gateway.

use std::fs;
use std::process::Command;

use flow_core::{Deadline, Document, DocumentArray};
use flow_tests::{
    Program, TestFlow, client, eventually, flow_command, free_port, is_alive, post, request,
    scrape, send, texts,
};
use rustix::process::Signal;
use serde_json::json;

use crate::state::{document, found};

/// An encoder, and the bits of its vectors of two texts.
async fn vectors(colocate: bool) -> Vec<Vec<u8>> {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: a, uses: sentence-encoder, colocate: {colocate}}}]"
    ));
    let request = texts("/encode", &["a text", "another one, which is longer"]);
    let reply = client(&flow).await.single(request, Deadline::NEVER).await;
    let documents = DocumentArray::decode(&reply.unwrap().data.unwrap()).unwrap();
    let vector = |document: &Document| document.embedding().unwrap().buffer().to_vec();
    documents.iter().map(vector).collect()
}

#[tokio::test]
async fn a_colocated_encoder_gives_the_vectors_of_one_with_a_process_of_its_own() {
    assert_eq!(vectors(true).await, vectors(false).await);
}

const MIXED: &str = "executors:
- {name: index, uses: vector-index, workspace: data, colocate: true}
- {name: echo, uses: echo}";

/// Runs a command of `flow` that sees this flow.
fn run(flow: &TestFlow, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = flow_command();
    command.env("XDG_STATE_HOME", flow.folder().join("state"));
    command.args(arguments);
    let (code, program) = Program::run(command);
    (code, program.said())
}

#[tokio::test]
async fn a_gateway_that_dies_comes_back_with_its_executors_and_their_state() {
    let flow = TestFlow::up(MIXED);
    flow.expect("process died and is restarted");
    flow.program().line("`index` runs in this process");
    let (code, said) = run(&flow, &["ps"]);
    assert_eq!(
        (code, said.matches("ready").count()),
        (Some(0), 2),
        "{said}"
    );
    assert_eq!(
        post(&flow, vec![document("/index", "one")]).await[0].failure,
        None
    );
    let first = flow.pid("gateway");
    send(first, Signal::KILL);
    eventually("another gateway is ready", || flow.pid("gateway") != first);
    assert_eq!(found(&flow).await, ["one"]);
}

#[tokio::test]
async fn a_failure_that_ends_a_colocated_executor_ends_the_gateway_after_its_requests() {
    let flow = TestFlow::up(
        "executors: [{name: a, uses: segmenter, colocate: true, exit_on_exceptions: [BadRequest]}]",
    );
    flow.expect("process died and is restarted");
    let first = flow.pid("gateway");
    let wrong = request("/segment", &["x"], &json!({"by": "no such thing"}));
    let failure = post(&flow, vec![wrong]).await[0].failure.clone();
    assert!(failure.unwrap().contains("no such thing"));
    flow.program()
        .line("executor `a` ends after `BadRequest`, which `exit_on_exceptions` lists");
    eventually("another gateway is ready", || flow.pid("gateway") != first);
    assert_eq!(
        post(&flow, vec![texts("/segment", &["x"])]).await[0].failure,
        None
    );
}

#[tokio::test]
async fn a_change_of_a_colocated_executor_is_refused_and_the_flow_serves_on() {
    let flow = TestFlow::up(MIXED);
    let refused = "`index` runs in the process of the gateway";
    for command in [["restart", "index"], ["scale", "index=2"]] {
        let (code, said) = run(&flow, &command);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(refused), "{said}");
    }
    let changed = MIXED.replace("workspace: data", "workspace: data, uses_with: {top_k: 1}");
    fs::write(
        flow.folder().join("flow.yml"),
        format!("jtype: Flow\n{changed}"),
    )
    .unwrap();
    let (code, said) = run(&flow, &["reload"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(refused), "{said}");
    let more = MIXED.replace("uses: echo}", "uses: echo, replicas: 2}");
    fs::write(
        flow.folder().join("flow.yml"),
        format!("jtype: Flow\n{more}"),
    )
    .unwrap();
    assert_eq!(run(&flow, &["reload"]).0, Some(0));
    assert_eq!(
        post(&flow, vec![document("/index", "one")]).await[0].failure,
        None
    );
    assert_eq!(found(&flow).await, ["one"]);
}

#[tokio::test]
async fn a_colocated_executor_counts_its_requests_at_a_port_of_its_own() {
    let port = free_port();
    let flow = TestFlow::up(&format!(
        "executors: [{{name: a, uses: echo, colocate: true, monitoring: true, port_monitoring: {port}}}]"
    ));
    for _ in 0..3 {
        assert_eq!(post(&flow, vec![texts("/x", &["t"])]).await[0].texts, ["t"]);
    }
    let numbers = scrape(&format!("http://127.0.0.1:{port}/metrics"));
    let count = r#"jina_process_request_seconds_count{executor_endpoint="/default",executor="Echo",runtime_name="a/rep-0"}"#;
    assert_eq!(numbers.get(count), 3);
}

#[tokio::test]
async fn the_log_names_the_port_of_metrics_and_no_variable_opens_it_to_other_machines() {
    let flow = TestFlow::up_in(
        "with: {monitoring: true}\nexecutors: [{name: a, uses: echo, colocate: true}]",
        &[("FLOW_LISTEN_HOST", "0.0.0.0")],
    );
    flow.expect("listens on all addresses");
    let line = flow.program().line("`a` runs in this process");
    let url = line.split(" metrics=").nth(1).unwrap();
    let url = url.split(' ').next().unwrap().trim();
    assert!(url.starts_with("http://127.0.0.1:"), "{line}");
    scrape(url).get(r#"jina_successful_requests_total{runtime_name="a/rep-0"}"#);
}

/// `flow gateway` on a flow with these executors, without addresses.
fn gateway_alone(folder: &std::path::Path, executors: &str) -> Command {
    let file = folder.join("flow.yml");
    fs::write(&file, format!("jtype: Flow\nexecutors: {executors}")).unwrap();
    let mut command = flow_command();
    command
        .arg("gateway")
        .arg(file)
        .args(["--port", "0", "--log", "json"]);
    command
}

#[test]
fn a_gateway_alone_serves_its_colocated_executors_and_ends_with_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let executors = "[{name: a, uses: segmenter, colocate: true}]";
    let mut gateway = Program::start(gateway_alone(folder.path(), executors));
    let url = format!("grpc://{}", gateway.address());
    let mut command = flow_command();
    command.args(["post", &url, "--on", "/segment", "--text", "One. Two."]);
    let (code, posted) = Program::run(command);
    assert_eq!(code, Some(0), "{}", posted.said());
    let pid = gateway.pid();
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.end().code(), Some(0));
    assert!(!is_alive(pid));
}

#[test]
fn a_colocated_executor_that_cannot_load_fails_the_start_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let executors = "[{name: a, uses: vector-index, workspace: /proc/none, colocate: true}]";
    let (code, said) = Program::run(gateway_alone(folder.path(), executors));
    let said = said.said();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cannot run `a` in the gateway: executor `a` could not load: "),
        "{said}"
    );
}
