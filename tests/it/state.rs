//! Executors with state, while their flow is changed.

use std::fs;
use std::path::Path;

use flow_core::{Deadline, Document, DocumentArray, Tensor};
use flow_proto::Envelope;
use flow_tests::{Program, TestFlow, client, eventually, flow_command, post, said, texts};

const INDEX: &str = "executors:
- {name: echo, uses: echo}
- {name: index, uses: vector-index, workspace: data}";

/// A document with a vector.
pub(crate) fn document(endpoint: &str, text: &str) -> Envelope {
    let mut document = Document::from_text(text);
    document.set_embedding(&Tensor::vector(&[1.0, 0.5]));
    let documents: DocumentArray = [document].into_iter().collect();
    Envelope {
        data: Some(documents.encode()),
        ..texts(endpoint, &[])
    }
}

async fn index(flow: &TestFlow, text: &str) {
    let replies = post(flow, vec![document("/index", text)]).await;
    assert_eq!(replies[0].failure, None);
}

/// The texts that a search finds.
pub(crate) async fn found(flow: &TestFlow) -> Vec<String> {
    let query = document("/search", "query");
    let reply = client(flow).await.single(query, Deadline::NEVER).await;
    let reply = reply.unwrap();
    assert_eq!(said(&reply).failure, None);
    let mut documents = DocumentArray::decode(reply.data.as_ref().unwrap()).unwrap();
    let matches = documents[0].matches_mut().unwrap();
    matches.iter().map(Document::text).collect()
}

/// Sends a request to the other executor.
async fn echo(flow: &TestFlow) {
    let mut request = texts("/any", &["x"]);
    request.header.as_mut().unwrap().target_executor = Some("echo".to_owned());
    let replies = post(flow, vec![request]).await;
    assert_eq!(replies[0].texts, ["x"], "{replies:?}");
}

/// Runs a command of `flow` in the folder of a flow.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = flow_command();
    command.env("XDG_STATE_HOME", folder.join("state"));
    command.args(arguments);
    let (code, program) = Program::run(command);
    (code, program.said())
}

/// Changes a flow, and sends requests to the other executor meanwhile.
async fn change(flow: &TestFlow, arguments: &'static [&str]) {
    let folder = flow.folder().to_owned();
    let change = tokio::task::spawn_blocking(move || run(&folder, arguments));
    echo(flow).await;
    while !change.is_finished() {
        echo(flow).await;
    }
    let (code, said) = change.await.unwrap();
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_survives_restarts_and_reloads_while_other_executors_serve() {
    let flow = TestFlow::up(INDEX);
    // The gateway's health check may see the gap.
    flow.expect("replica cannot be reached");
    index(&flow, "one").await;
    let first = flow.pid("index");
    change(&flow, &["restart", "index"]).await;
    eventually("there is another process", || flow.pid("index") != first);
    let second = flow.pid("index");
    assert_eq!(found(&flow).await, ["one"]);

    index(&flow, "two").await;
    let changed = INDEX.replace("data", "data, uses_with: {top_k: 1}");
    fs::write(
        flow.folder().join("flow.yml"),
        format!("jtype: Flow\n{changed}"),
    )
    .unwrap();
    change(&flow, &["reload"]).await;
    eventually("there is another process", || flow.pid("index") != second);
    assert_eq!(found(&flow).await.len(), 1, "the new option is in force");
}

#[tokio::test]
async fn an_index_does_not_get_more_replicas_which_would_be_empty() {
    let flow = TestFlow::up(INDEX);
    index(&flow, "one").await;
    let (code, said) = run(flow.folder(), &["scale", "index=2"]);
    assert_eq!(code, Some(1), "{said}");
    let expected = "their number cannot change while the flow runs: a new one would be empty";
    assert!(said.contains(expected), "{said}");
    assert!(said.contains("`shards`"), "{said}");
    assert_eq!(found(&flow).await, ["one"]);
}
