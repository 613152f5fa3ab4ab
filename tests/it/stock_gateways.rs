//! Our executors behind stock gateways of both versions of DocArray, asked by the stock client.

use flow_tests::{DocArrayVersion, Program, Stock, flow_command, python};
use serde_json::json;

use crate::FAULTY;

fn check(version: DocArrayVersion) {
    let mut command = std::process::Command::new(FAULTY);
    command.args(["--name", "ours", "--uses-with", "mark:!", "--log", "json"]);
    let faulty = Program::start(command);
    let port = faulty.port();
    let Some(gateway) = Stock::gateway(version, port) else {
        return;
    };
    let Some(got) = python(version, "gateway_client.py", &[gateway.port().to_string()]) else {
        return;
    };

    assert_eq!(got["ready"], true, "{}", gateway.program().said());
    assert_eq!(
        got["marked"],
        json!(["a!", "b!"]),
        "{}",
        gateway.program().said()
    );
    assert_eq!(got["unbound"], json!(["a"]));
    assert_eq!(got["fields"], json!([]));
    assert_eq!(got["parameters"], json!({"top_k": 5.0, "own": true}));
    assert_eq!(got["failure"], json!([1, "executor `ours`: not today"]));
    assert_eq!(got["endpoints"], true);

    let mut command = flow_command();
    let url = format!("grpc://127.0.0.1:{}", gateway.port());
    command.args([
        "post", &url, "--on", "/mark", "--text", "a", "--output", "-",
    ]);
    let (code, post) = Program::run(command);
    assert_eq!(code, Some(0), "{}", post.said());
    assert!(post.stdout().contains("\"text\":\"a!\""), "{}", post.said());
}

#[test]
fn our_executor_works_behind_a_gateway_of_docarray_v1() {
    check(DocArrayVersion::V1);
}

#[test]
fn our_executor_works_behind_a_gateway_of_docarray_v2() {
    check(DocArrayVersion::V2);
}
