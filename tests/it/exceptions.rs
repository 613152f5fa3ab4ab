//! Failures after which an executor's process is to end.

use std::process::Command;

use flow_net::{Client, PostOptions};
use flow_tests::{Program, said, texts};
use futures_util::{StreamExt, stream};

use crate::FAULTY;

/// What `flow_executor::run` ends with after such a failure.
const EXECUTOR_FAILED: i32 = flow_process::exit::EXECUTOR_FAILED as i32;

/// Starts faulty, asks it both, and gives what it said and how it ended, if it did.
async fn ask(options: &[&str], endpoint: &str) -> (String, Option<i32>) {
    let mut command = Command::new(FAULTY);
    command.args(options).args(["--log", "json"]);
    let mut program = Program::start(command);
    let address = program.address();
    let client = Client::connect(&format!("grpc://{address}")).await.unwrap();
    let requests = stream::iter([texts(endpoint, &["x"])]);
    let options = PostOptions::default();
    let mut replies = client.post(&options, requests).await.unwrap();
    let reply = said(&replies.next().await.unwrap().unwrap());
    drop((replies, client));
    (reply.failure.unwrap(), program.end().code())
}

#[tokio::test]
async fn the_process_ends_after_the_reply_that_gives_the_reason() {
    let (failure, code) = ask(&["--exit-on-exceptions", "panic"], "/panic").await;
    assert!(failure.contains("this is too much"), "{failure}");
    assert_eq!(code, Some(EXECUTOR_FAILED));
    let names = ["--exit-on-exceptions", "BadRequest,ExecutorError"];
    let (failure, code) = ask(&names, "/fail").await;
    assert!(failure.contains("not today"), "{failure}");
    assert_eq!(code, Some(EXECUTOR_FAILED));
}

#[tokio::test]
async fn an_executor_that_cannot_continue_ends_its_process_after_the_reply() {
    let (failure, code) = ask(&[], "/last").await;
    assert!(failure.contains("nothing works any more"), "{failure}");
    assert_eq!(code, Some(EXECUTOR_FAILED));
}

#[test]
fn an_unknown_failure_name_is_reported_at_the_start() {
    let mut command = Command::new(FAULTY);
    command.args(["--exit-on-exceptions", "ValueError"]);
    let mut program = Program::start(command);
    program.line("unknown failure `ValueError`");
    assert_eq!(program.end().code(), Some(2));
}
