//! Flows from Rust with the real program, which `cargo xtask test` builds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use flow::{Code, Document, Flow, Node, Progress, StartError, stream};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;

/// The folder of programs.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

fn texts(len: usize) -> impl stream::Stream<Item = Document> {
    stream::iter((0..len).map(|number| Document::from_text(&number.to_string())))
}

#[tokio::test]
async fn documents_come_back_in_order() {
    let flow = Flow::new()
        .add(Node::new("echo").uses("echo").replicas(2))
        .start()
        .await
        .unwrap();
    let client = flow.client().await.unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&reported);
    let post = client.post("/any", texts(100)).request_size(32).in_order();
    let post = post.on_progress(move |it| report.lock().unwrap().push(it.documents));
    let back: Vec<Document> = post.documents().try_collect().await.unwrap();

    let wanted: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(back.iter().map(Document::text).collect::<Vec<_>>(), wanted);
    assert_eq!(*reported.lock().unwrap(), [32, 64, 96, 100]);
    assert!(flow.stop().await.unwrap().success());
}

#[tokio::test]
async fn a_failed_request_affects_no_other() {
    // Nothing listens on port 1.
    let flow = Flow::new().add(
        Node::new("gone")
            .external("127.0.0.1:1")
            .option("retries", 0),
    );
    let flow = flow.start().await.unwrap();
    let client = flow.client().await.unwrap();
    let last = Arc::new(Mutex::new(Progress::default()));
    let report = Arc::clone(&last);
    let post = client.post("/any", texts(4)).request_size(2).prefetch(1);
    let post = post.on_progress(move |it| *report.lock().unwrap() = it);
    let replies: Vec<_> = post.replies().collect().await;
    assert_eq!(replies.len(), 2);
    let codes = replies
        .iter()
        .map(|reply| reply.as_ref().unwrap_err().code());
    assert!(codes.into_iter().all(|code| code == Code::Lost));
    let wanted = Progress {
        requests: 2,
        documents: 0,
        failed: 2,
    };
    assert_eq!(*last.lock().unwrap(), wanted);
}

#[tokio::test]
async fn a_flow_that_does_not_start_reports_the_cause() {
    let wrong = Flow::new()
        .add(Node::new("a").uses("echo").replicas(0))
        .start()
        .await;
    assert!(matches!(wrong.unwrap_err(), StartError::Invalid(_)));
    let unknown = Flow::new().add(Node::new("a").uses("echo").uses_with(json!({"none": 1})));
    let output = unknown.start().await.unwrap_err().to_string();
    assert!(output.contains("none"), "{output}");
}

#[test]
fn the_tutorial_s_example_runs() {
    let mut example = Command::new(folder().join("examples/tutorial"));
    let run = example.arg("200").output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert_eq!(
        output,
        "200 vectors\n",
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
