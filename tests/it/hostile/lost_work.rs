//! Requests that end the process which works on them.

use std::path::Path;

use flow_tests::{TestFlow, post, request, texts};
use serde_json::json;

use crate::FAULTY;

/// How often an executor began to work on the request.
fn runs(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap().lines().count()
}

/// A flow whose executor may be lost.
fn faulty(options: &str) -> TestFlow {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: faulty, uses: {FAULTY}{options}}}]"
    ));
    flow.expect("replica cannot be reached").expect("faulty");
    flow
}

/// Sends a request that ends the process which runs it, and then a request of another client. Returns why the first failed.
async fn killed_by(flow: &TestFlow, file: &Path) -> String {
    let killer = request("/exit", &["x"], &json!({ "runs": file }));
    let failure = post(flow, vec![killer]).await.remove(0).failure.unwrap();
    let bystander = post(flow, vec![texts("/mark", &["well"])]).await.remove(0);
    assert_eq!(bystander.texts, ["well"], "{bystander:?}");
    failure
}

#[tokio::test]
async fn work_that_was_lost_behind_two_gateways_ran_once() {
    let inner = faulty("");
    let outer = TestFlow::up(&format!(
        "executors: [{{name: inner, external: true, host: 127.0.0.1, port: {}}}]",
        inner.port()
    ));
    outer.expect("replica cannot be reached");
    let file = inner.folder().join("runs");
    let failure = killed_by(&outer, &file).await;
    assert!(failure.contains("faulty"), "{failure}");
    assert_eq!(runs(&file), 1);
}

#[tokio::test]
async fn a_request_that_ends_its_process_ends_no_more_than_two() {
    let flow = faulty(", replicas: 3, idempotent: true");
    let file = flow.folder().join("runs");
    let failure = killed_by(&flow, &file).await;
    assert!(failure.contains("executor `faulty`"), "{failure}");
    assert_eq!(runs(&file), 2);
}
