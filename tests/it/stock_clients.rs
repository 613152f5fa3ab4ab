//! The stock Python client, of both versions of DocArray, at our gateway and our executors.
//!
//! A Python takes seconds to start, so `peers/client.py` runs all its cases once for each version of DocArray, and
//! each test here looks at one of them.

use std::sync::OnceLock;

use flow_tests::{DocArrayVersion, TestFlow, python};
use serde_json::{Value, json};

use crate::FAULTY;

/// What the cases returned; `None` if the peer is not set up.
fn cases(version: DocArrayVersion) -> Option<&'static Value> {
    static CASES: [OnceLock<Option<Value>>; 2] = [OnceLock::new(), OnceLock::new()];
    CASES[version as usize]
        .get_or_init(|| run(version))
        .as_ref()
}

fn run(version: DocArrayVersion) -> Option<Value> {
    let replicas =
        format!("{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}, replicas: 2}}");
    let flow = TestFlow::up(&format!(
        "executors: [{{name: echo, uses: echo}}, {replicas}]"
    ));
    let streaming = TestFlow::up(&format!("executors: [{{name: faulty, uses: {FAULTY}}}]"));
    let ports = [flow.port(), streaming.port()].map(|port| port.to_string());
    python(version, "client.py", &ports)
}

/// Looks at one case in both versions of DocArray.
fn check(case: &str, wanted: &Value) {
    each(case, |got| assert_eq!(got, wanted));
}

fn each(case: &str, look: impl Fn(&Value)) {
    for version in DocArrayVersion::ALL {
        if let Some(cases) = cases(version) {
            look(&cases[case]);
        }
    }
}

fn numbers() -> Value {
    (0..25).collect()
}

#[test]
fn a_stream_of_requests_gets_all_its_documents_back() {
    check("streamed", &numbers());
}

#[test]
fn requests_one_by_one_get_all_their_documents_back() {
    check("unary", &numbers());
}

#[test]
fn replies_leave_as_they_finish_or_in_order_as_the_client_asks() {
    check("as_done", &json!(["0", "400"]));
    check("in_order", &json!(["400", "0"]));
    check("in_order_unary", &json!(["400", "0"]));
}

#[test]
fn a_window_of_one_request_is_enough() {
    check(
        "prefetch",
        &(0..25).map(|number| number.to_string()).collect(),
    );
}

#[test]
fn requests_have_the_size_that_the_client_asks_for() {
    check("request_size", &json!([[10, 10, 5], [25]]));
}

#[test]
fn parameters_come_back_and_executors_see_their_own() {
    each("parameters", |got| {
        assert_eq!(got["back"], true);
        assert_eq!(
            got["seen"],
            json!({"top_k": 5.0, "deep": {"list": [1.0, "a", null]}, "own": true})
        );
        let name = got["names"][0].as_str().unwrap();
        assert!(["faulty/rep-0", "faulty/rep-1"].contains(&name), "{name}");
    });
}

#[test]
fn a_request_without_documents_is_answered_without_any() {
    check("without_input", &json!({"docs": 0, "code": 0}));
}

#[test]
fn executors_that_a_request_is_not_for_pass_it_on() {
    check("target_executor", &json!([["x!"], ["x!"], ["x"], ["x!"]]));
}

#[test]
fn compressed_messages_are_read() {
    check("compression", &json!([numbers(), numbers(), numbers()]));
}

#[test]
fn the_client_sees_whether_the_flow_is_ready() {
    check("ready", &json!([true, false]));
}

#[test]
fn the_client_profiles_each_executor() {
    // The client of DocArray v2 cannot: it imports a class that its own DocArray has not.
    let Some(cases) = cases(DocArrayVersion::V1) else {
        return;
    };
    let profile = &cases["profiling"];
    // It divides by the gateway's whole milliseconds, of which a fast one may have none.
    if profile["raised"] == "ZeroDivisionError" {
        return;
    }
    let names = profile.as_array().unwrap_or_else(|| panic!("{profile}"));
    assert!(
        names.contains(&json!("echo")) && names.contains(&json!("faulty")),
        "{names:?}"
    );
}

#[test]
fn routes_begin_with_the_gateway_and_have_both_times() {
    check(
        "routes",
        &json!({"names": ["gateway", "echo", "faulty"], "timed": true}),
    );
}

#[test]
fn a_failure_of_an_executor_reaches_the_client_with_its_text() {
    check("failure", &json!({"done": 0, "error": 1, "always": 1}));
    each("failure_raises", |got| {
        assert_eq!(got["raised"], "BadServer");
        assert!(got["text"].as_str().unwrap().contains("not today"), "{got}");
    });
    each("failure_goes_on", |got| {
        assert_eq!(
            got.as_array().unwrap().len(),
            2,
            "the stream goes on after the first"
        );
        assert_eq!(got[0][0], 1);
        let (text, executor) = (got[0][1].as_str().unwrap(), got[0][2].as_str().unwrap());
        assert_eq!(text, format!("executor `{executor}`: not today"));
    });
}

#[test]
fn a_deadline_that_passes_is_reported_by_the_side_that_sees_it_first() {
    each("timeout", |got| {
        // The client's own clock and the gateway's reply arrive at the same time.
        let text = got["text"].as_str().unwrap();
        assert!(["ConnectionError", "BadServer"].contains(&got["raised"].as_str().unwrap()));
        assert!(
            text.contains("DEADLINE_EXCEEDED") || text.contains("the deadline passed"),
            "{got}"
        );
    });
}

#[test]
fn a_document_of_100_megabytes_comes_back() {
    check("large", &json!({"streamed": true, "unary": true}));
}

#[test]
fn every_field_of_a_document_comes_back_as_it_was_sent() {
    let same = json!([]);
    check(
        "fields",
        &json!({"streamed /any": same, "streamed /touch": same, "unary /any": same, "unary /touch": same}),
    );
}

#[test]
fn an_executor_streams_documents_one_by_one() {
    check("letters", &json!(["a", "b", "c"]));
}

#[test]
fn the_port_serves_health_and_reflection() {
    each("services", |got| {
        assert_eq!(got["health"], 1);
        let names = got["names"].as_array().unwrap();
        for name in [
            "jina.JinaRPC",
            "jina.JinaSingleDataRequestRPC",
            "inference.GRPCInferenceService",
            "grpc.health.v1.Health",
        ] {
            assert!(names.contains(&json!(name)), "{name} in {names:?}");
        }
    });
}
