//! The stock Python client over HTTP and over WebSocket, of both versions of DocArray.
//!
//! A Python takes seconds to start, so `peers/http_client.py` runs all its cases once for each version and protocol, and
//! each test here looks at one of them.

use std::sync::OnceLock;

use flow_tests::{DocArrayVersion, TestFlow, python};
use serde_json::{Value, json};

use crate::FAULTY;

const PROTOCOLS: [&str; 2] = ["http", "websocket"];

type Cases = Vec<(DocArrayVersion, &'static str, Value)>;

/// What the cases returned, for each version and protocol; empty if the peers are not set up.
fn cases() -> &'static Cases {
    static CASES: OnceLock<Cases> = OnceLock::new();
    CASES.get_or_init(run)
}

fn run() -> Cases {
    let faulty = format!("{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}}}");
    let flow = TestFlow::up(&format!(
        "with: {{protocol: [http, websocket]}}\nexecutors: [{{name: echo, uses: echo}}, {faulty}]"
    ));
    let streaming = TestFlow::up(&format!("executors: [{{name: faulty, uses: {FAULTY}}}]"));
    let ports = [flow.port(), streaming.port()].map(|port| port.to_string());
    let mut cases = Cases::new();
    for version in DocArrayVersion::ALL {
        for protocol in PROTOCOLS {
            let arguments = [protocol.to_owned(), ports[0].clone(), ports[1].clone()];
            if let Some(got) = python(version, "http_client.py", &arguments) {
                cases.push((version, protocol, got));
            }
        }
    }
    cases
}

fn each(case: &str, look: impl Fn(DocArrayVersion, &str, &Value)) {
    for (version, protocol, cases) in cases() {
        look(*version, protocol, &cases[case]);
    }
}

/// Looks at one case in both versions of DocArray and over both protocols.
fn check(case: &str, wanted: &Value) {
    each(case, |version, protocol, got| {
        assert_eq!(got, wanted, "{version:?} {protocol}");
    });
}

fn numbers() -> Value {
    (0..25).collect()
}

#[test]
fn requests_get_all_their_documents_back() {
    check("all_back", &numbers());
    check("asynchronous", &numbers());
}

#[test]
fn the_client_puts_replies_in_order() {
    check("in_order", &json!(["400", "0"]));
}

#[test]
fn the_executors_work_on_the_documents() {
    check("worked_on", &json!(["x!"]));
}

#[test]
fn parameters_come_back_and_executors_see_their_own() {
    each("parameters", |version, protocol, got| {
        assert_eq!(got["back"], true, "{version:?} {protocol}: {got}");
        assert_eq!(got["names"], json!(["faulty"]));
        assert_eq!(
            got["seen"],
            json!({"top_k": 5.0, "deep": {"list": [1.0, "a", null]}, "own": true})
        );
    });
}

#[test]
fn tags_keep_their_types() {
    each("tags", |version, protocol, got| {
        // The client of the first version itself makes `true` of the 1 in a JSON reply.
        if (version, protocol) != (DocArrayVersion::V1, "http") {
            assert_eq!(got["a"].as_f64(), Some(1.0), "{version:?} {protocol}");
        }
        assert_eq!(got["b"], json!(true));
        assert_eq!(got["c"], json!(1.5));
        assert_eq!(got["d"], json!("e"));
    });
}

#[test]
fn executors_that_a_request_is_not_for_pass_it_on() {
    check("target_executor", &json!([["x!"], ["x"]]));
}

#[test]
fn the_client_sees_whether_the_flow_is_ready() {
    check("ready", &json!([true, false]));
}

#[test]
fn a_failure_of_an_executor_reaches_the_client_with_its_text() {
    each("failure_raises", |version, protocol, got| {
        // Over WebSocket the client forgets the error if the connection has ended when it looks.
        if protocol == "websocket" && got.is_null() {
            return;
        }
        let text = got["text"].as_str().unwrap_or_default();
        assert!(text.contains("not today"), "{version:?} {protocol}: {got}");
        // With the second version, Jina's HTTP gateway answers with status 500 and no reply.
        let raised = match (version, protocol) {
            (DocArrayVersion::V2, "http") => "ValueError",
            _ => "BadServer",
        };
        assert_eq!(got["raised"], raised, "{version:?} {protocol}");
    });
    each("failure", |version, protocol, got| {
        match (version, protocol) {
            (DocArrayVersion::V2, "http") => assert_eq!(got["raised"], "ValueError"),
            _ => assert_eq!(got, &json!({"done": 0, "error": 1, "always": 1})),
        }
    });
}

#[test]
fn an_executor_streams_documents_over_http() {
    each("letters", |version, protocol, got| {
        if protocol == "http" {
            assert_eq!(got, &json!(["a", "b", "c"]), "{version:?}");
        }
    });
}
