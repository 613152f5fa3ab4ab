//! Finds the log lines of a request by its id.

use flow_tests::raw::{Connection, encoded};
use flow_tests::{Program, TestFlow, eventually, texts};
use rustix::process::Signal;
use serde_json::Value;

const UNARY: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";

/// A flow with the executor of `src/bin/faulty.rs`.
fn faulty(with: &str, arguments: &[&str]) -> TestFlow {
    let faulty = crate::FAULTY;
    let yaml = format!("with: {{{with}}}\nexecutors: [{{name: faulty, uses: {faulty}}}]");
    TestFlow::up_with(&yaml, arguments)
}

/// Sends a request without an id of its own; its call has this one. Returns the id that the answer has.
async fn send(flow: &TestFlow, endpoint: &str, id: &str) -> Option<String> {
    let mut request = texts(endpoint, &["a", "b"]);
    request.header.as_mut().unwrap().request_id.clear();
    let connection = Connection::open(flow.port()).await;
    let headers = [("x-request-id", id)];
    let body = encoded(&request);
    let answer = connection.call_with(UNARY, body, &headers).await;
    let id = answer.headers.get("x-request-id");
    id.map(|id| id.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_id_of_a_request_leads_to_the_line_of_the_gateway_and_to_that_of_the_executor() {
    let flow = faulty("", &[]);
    flow.expect("panicked");
    assert_eq!(
        send(&flow, "/panic", "find-me").await.as_deref(),
        Some("find-me")
    );
    let failed = flow.program().line("request failed");
    for part in [
        "request_id=\"find-me\"",
        "endpoint=\"/panic\"",
        "protocol=\"grpc\"",
        "client=127.0.0.1",
        "documents=2",
        "bytes=",
        "executor=\"faulty\"",
        "code=\"executor_failed\"",
        "took_ms=",
        "nodes_ms=\"faulty ",
        "cause=\"executor `faulty`: panicked: this is too much\"",
    ] {
        assert!(failed.contains(part), "`{part}` in {failed}");
    }
    // Where it panicked, and that the call failed.
    let of_executor = |part: &str| {
        flow.program()
            .line(&format!("request_id=\"find-me\" {part}"))
    };
    assert!(of_executor("panicked").contains("faulty.rs"));
    of_executor("executor panicked");
}

#[tokio::test]
async fn slow_requests_are_logged_with_where_their_time_went() {
    let flow = faulty("slow_request: 1ns", &[]);
    flow.expect("slow request");
    send(&flow, "/mark", "slow-one").await;
    let slow = flow.program().line("slow request");
    assert!(slow.contains("request_id=\"slow-one\""), "{slow}");
    assert!(slow.contains("nodes_ms=\"faulty "), "{slow}");
}

#[tokio::test]
async fn all_requests_are_logged_if_the_command_line_asks_for_it() {
    let flow = faulty("log_config: json", &["--access-log"]);
    send(&flow, "/mark", "any-one").await;
    let line = flow.program().line("flow_gateway::access");
    let json = line.find('{').map(|at| &line[at..]).unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    let fields = &json["fields"];
    assert_eq!(fields["request_id"], "any-one", "{line}");
    assert_eq!(
        (&fields["documents"], &fields["client"]),
        (&2.into(), &"127.0.0.1".into())
    );
    assert!(
        fields["took_ms"].as_f64().is_some_and(|it| it > 0.0),
        "{line}"
    );
    eventually("it is one line", || line.matches("any-one").count() == 1);
}

// The clients close their connections on a thread of their own while the flow ends.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_last_requests_are_there_when_the_flow_ends_right_after_them() {
    let mut flow = faulty("", &["--access-log"]);
    let ids: Vec<String> = (0..100).map(|number| format!("last-{number}.")).collect();
    for id in &ids {
        send(&flow, "/mark", id).await;
    }
    flow.program().signal(Signal::TERM);
    assert!(flow.program_mut().end().success());
    let said = flow.program().said();
    let lines = |id: &&String| said.matches(&format!("request_id=\"{id}\"")).count() == 1;
    assert_eq!(ids.iter().filter(lines).count(), ids.len(), "{said}");
}

#[tokio::test]
async fn without_options_only_failures_are_logged() {
    let flow = faulty("", &[]);
    flow.expect("panicked");
    send(&flow, "/mark", "fine").await;
    send(&flow, "/panic", "not-fine").await;
    flow.program().line("request_id=\"not-fine\"");
    assert!(!flow.program().said().contains("\"fine\""));
}

#[tokio::test]
async fn requests_without_a_valid_key_are_logged_with_their_client_and_never_with_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yml");
    let mut command = flow_tests::flow_command();
    command.args(["key", "new", "someone", "--file"]).arg(&keys);
    assert_eq!(Program::run(command).0, Some(0));
    let flow = TestFlow::up(&format!(
        "gateway: {{api_keys: '{}'}}\nexecutors: [{{name: echo, uses: echo}}]",
        keys.display()
    ));
    let connection = Connection::open(flow.port()).await;
    let body = encoded(&texts("/any", &["a"]));
    let headers = [("authorization", "Bearer flow_guessed")];
    connection.call_with(UNARY, body, &headers).await;
    let refused = flow.program().line("request refused");
    for part in [
        "INFO",
        "path=\"/jina.JinaSingleDataRequestRPC/process_single_data\"",
        "client=127.0.0.1",
        "code=\"unauthenticated\"",
        "cause=\"the API key is not known here, or was revoked\"",
    ] {
        assert!(refused.contains(part), "`{part}` in {refused}");
    }
    assert!(!flow.program().said().contains("guessed"));
}
