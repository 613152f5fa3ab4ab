//! Parameters that no executor accepts: when they are refused, and when they are not.

use flow_tests::{PlainReply, Program, TestFlow, flow_command, post, request};
use serde_json::json;

/// Asks for windows of two words, with a slip.
fn misspelt() -> Vec<flow_proto::Envelope> {
    let parameters = json!({"by": "words", "max_word": 2});
    vec![request("/segment", &["one two three"], &parameters)]
}

async fn said(flow: &TestFlow) -> PlainReply {
    post(flow, misspelt()).await.remove(0)
}

#[tokio::test]
async fn the_gateway_refuses_a_parameter_that_no_executor_accepts() {
    let flow = TestFlow::up("executors: [{name: segmenter, uses: segmenter}]");
    let said = said(&flow).await;
    let failure = "`/segment` accepts no parameter `max_word`; did you mean `max_words`?";
    assert_eq!(said.failure.as_deref(), Some(failure));
    assert_eq!(said.exception.as_deref(), Some("BadRequest"));
}

#[tokio::test]
async fn a_parameter_that_another_executor_may_accept_passes_and_a_slip_is_named_in_the_log() {
    let executors = "[{name: segmenter, uses: segmenter}, {name: echo, uses: echo}]";
    let flow = TestFlow::up(&format!("executors: {executors}"));
    let named = "ignored a parameter that looks misspelt";
    flow.expect(named);
    assert_eq!(said(&flow).await.failure, None);
    let line = flow.program().line(named);
    assert!(
        line.contains("max_word") && line.contains("max_words"),
        "{line}"
    );
}

#[test]
fn an_executor_that_is_called_without_a_gateway_refuses_it_too() {
    let mut command = flow_command();
    command.args([
        "executor",
        "--uses",
        "segmenter",
        "--name",
        "segmenter",
        "--log",
        "json",
    ]);
    let executor = Program::start(command);
    let address = executor.address().to_string();
    let mut command = flow_command();
    let arguments = [
        "--on",
        "/segment",
        "--text",
        "a",
        "--parameters",
        "max_word:2",
    ];
    command.args(["post", &address]).args(arguments);
    let (code, post) = Program::run(command);
    assert_eq!(code, Some(1), "{}", post.said());
    let failure = "executor `segmenter`: `/segment` accepts no parameter `max_word`; \
                   did you mean `max_words`?";
    assert!(post.stderr().contains(failure), "{}", post.said());
}
