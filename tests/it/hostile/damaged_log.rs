//! A byte of an index's log that was changed on the disk.

use std::path::Path;

use flow_core::{Document, DocumentArray, Tensor};
use flow_proto::Envelope;
use flow_tests::{Program, flow_command, said, texts};
use rustix::process::Signal;
use serde_json::Value;

/// Requests that change the index, each of which is a record.
const RECORDS: usize = 100;

const FLOW: &str = "jtype: Flow\nexecutors: [{name: index, uses: vector-index, workspace: data}]";

fn command(folder: &Path) -> std::process::Command {
    let mut command = flow_command();
    command
        .env("XDG_STATE_HOME", folder.join("state"))
        .arg("up")
        .arg(folder.join("flow.yml"))
        .args(["--port", "0", "--ready-format", "json"]);
    command
}

fn index_request(id: usize) -> Envelope {
    let mut document = Document::from_text("kept");
    document.set_id(&id.to_string());
    document.set_embedding(&Tensor::vector(&[1.0, 0.5]));
    let documents: DocumentArray = [document].into_iter().collect();
    Envelope {
        data: Some(documents.encode()),
        ..texts("/index", &[])
    }
}

/// Starts the flow, runs the requests one after another, and ends it. Returns how many entries the last one left.
async fn up_and_down(folder: &Path, requests: Vec<Envelope>) -> Value {
    let mut flow = Program::start(command(folder));
    let url = format!("grpc://127.0.0.1:{}", flow.port());
    let client = flow_net::Client::connect(&url).await.unwrap();
    let mut count = Value::Null;
    for request in requests {
        let reply = client.single(request, flow_core::Deadline::NEVER).await;
        let said = said(&reply.unwrap());
        assert_eq!(said.failure, None);
        let status = said.results.get("index");
        count = status.map_or(Value::Null, |status| status["count"].clone());
    }
    flow.signal(Signal::TERM);
    flow.end();
    count
}

#[tokio::test]
async fn a_changed_length_in_an_index_s_log_cuts_nothing_off() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("flow.yml"), FLOW).unwrap();
    let mut requests: Vec<Envelope> = (0..RECORDS).map(index_request).collect();
    requests.push(texts("/status", &[]));
    assert_eq!(up_and_down(folder, requests).await, RECORDS);

    let log = folder.join("data/index/index.log");
    let whole = std::fs::read(&log).unwrap();
    // After the mark of the file, the first record: its length, two checksums, and as many bytes as it says.
    let first = 8;
    let len = u32::from_le_bytes(whole[first..first + 4].try_into().unwrap());
    let second = first + 12 + len as usize;
    let mut damaged = whole.clone();
    damaged[second] ^= 0x40;
    std::fs::write(&log, &damaged).unwrap();
    let (code, said) = Program::run(command(folder));
    assert_ne!(code, Some(0));
    let expected = format!("is damaged at byte {second}");
    assert!(said.said().contains(&expected), "{}", said.said());
    assert_eq!(std::fs::read(&log).unwrap(), damaged, "it stays as it is");

    std::fs::write(&log, &whole).unwrap();
    let status = vec![texts("/status", &[])];
    assert_eq!(up_and_down(folder, status).await, RECORDS);
}
