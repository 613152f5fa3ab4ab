//! kill -9 in the middle of the work, repeatedly: acknowledged documents are still there.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flow_core::{Document, DocumentArray, RequestId, Tensor};
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use futures_util::{StreamExt, stream};
use serde_json::json;

/// Times that the process is killed.
const KILLS: usize = 5;

/// Requests that it acknowledges before it is killed with others under way.
const ACKNOWLEDGED: usize = 20;

/// Requests that are sent; those beyond are under way when it is killed.
const SENT: usize = 40;

/// Documents in a request.
const DOCS: usize = 3;

/// A running index.
struct Process {
    child: Child,
    client: Client,
}

impl Process {
    async fn start(workspace: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vector-index"))
            .arg("--workspace")
            .arg(workspace)
            // The test asks for everything, and only looking at all finds all.
            .args(["--uses-with", "exact_below:1000000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().unwrap().unwrap();
        let (_, after) = ready.split_once("listening on ").unwrap();
        let address = after.split(' ').next().unwrap();
        let client = Client::connect(&format!("grpc://{address}")).await.unwrap();
        Self { child, client }
    }

    /// SIGKILL: nothing of its own runs any more.
    fn kill(self) {
        drop(self);
    }

    /// Indexes documents until `acknowledged` requests have their replies, and kills it then, with more
    /// under way.
    async fn index_and_kill(self, round: usize) -> Vec<String> {
        let requests = stream::iter((0..SENT).map(move |number| index_request(round, number)));
        let options = PostOptions::default();
        let mut replies = self.client.post(&options, requests).await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..ACKNOWLEDGED {
            let reply = replies.next().await.unwrap().unwrap();
            assert!(reply.header.unwrap().status.is_none_or(|it| it.code == 0));
            let docs = DocumentArray::decode(&reply.data.unwrap()).unwrap();
            ids.extend(docs.iter().map(Document::id));
        }
        self.kill();
        ids
    }

    /// The ids of all that is in it.
    async fn ids(&self) -> Vec<String> {
        let mut query = Document::new();
        query.set_embedding(&Tensor::vector(&[1.0, 1.0]));
        let mut request = request("/search", [query]);
        let parameters = json!({ "top_k": 100_000 });
        request.parameters = Some(flow_core::parameters::from_json(
            parameters.as_object().unwrap(),
        ));
        let options = PostOptions::default();
        let requests = stream::iter([request]);
        let mut replies = self.client.post(&options, requests).await.unwrap();
        let reply = replies.next().await.unwrap().unwrap();
        let mut docs = DocumentArray::decode(&reply.data.unwrap()).unwrap();
        let matches = docs[0].matches_mut().unwrap();
        matches.iter().map(Document::id).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn request(endpoint: &str, docs: impl IntoIterator<Item = Document>) -> Envelope {
    let docs: DocumentArray = docs.into_iter().collect();
    Envelope {
        header: Some(HeaderProto {
            request_id: RequestId::random().into(),
            exec_endpoint: Some(endpoint.to_owned()),
            ..HeaderProto::default()
        }),
        data: Some(docs.encode()),
        ..Envelope::default()
    }
}

fn index_request(round: usize, number: usize) -> Envelope {
    let docs = (0..DOCS).map(|place| {
        let mut doc = Document::from_text("kept");
        doc.set_id(&format!("{round}-{number}-{place}"));
        doc.set_embedding(&Tensor::vector(&[1.0, 0.5]));
        doc
    });
    request("/index", docs)
}

#[tokio::test]
async fn acknowledged_documents_survive_kill_9_and_requests_are_atomic() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..KILLS {
        let process = Process::start(folder.path()).await;
        acknowledged.extend(process.index_and_kill(round).await);
    }
    let process = Process::start(folder.path()).await;
    let there = process.ids().await;
    for id in &acknowledged {
        assert!(there.contains(id), "{id} was acknowledged and is gone");
    }
    assert!(acknowledged.len() >= KILLS * ACKNOWLEDGED * DOCS);
    let whole = |id: &String| {
        let request = id.rsplit_once('-').unwrap().0;
        let of_it = there
            .iter()
            .filter(|it| it.rsplit_once('-').unwrap().0 == request);
        of_it.count() == DOCS
    };
    assert!(there.iter().all(whole), "a request is there in part");
    process.kill();
}
