//! Starts the index as a process, and calls it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flow_core::{Document, DocumentArray, RequestId, Tensor};
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use futures_util::{StreamExt, stream};
use serde_json::json;

/// A running index. It is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) client: Client,
}

impl Process {
    pub(crate) async fn start(workspace: &Path) -> Self {
        let mut child = Command::new("sh")
            // A file that may not grow further fails the write, and does not end the process.
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_vector-index"))
            .arg("--workspace")
            .arg(workspace)
            // The tests ask for everything, and only looking at all finds all.
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

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: nothing of its own runs any more.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Sends one request, and returns its reply.
    pub(crate) async fn call(&self, request: Envelope) -> Envelope {
        let options = PostOptions::default();
        let requests = stream::iter([request]);
        let mut replies = self.client.post(&options, requests).await.unwrap();
        replies.next().await.unwrap().unwrap()
    }

    /// The ids of all that is in it.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let mut query = Document::new();
        query.set_embedding(&Tensor::vector(&[1.0, 1.0]));
        let mut request = request("/search", [query]);
        let parameters = json!({ "top_k": 100_000 });
        request.parameters = Some(flow_core::parameters::from_json(
            parameters.as_object().unwrap(),
        ));
        let reply = self.call(request).await;
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

pub(crate) fn request(endpoint: &str, docs: impl IntoIterator<Item = Document>) -> Envelope {
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

/// A document to index.
pub(crate) fn document(id: &str, text: &str) -> Document {
    let mut document = Document::from_text(text);
    document.set_id(id);
    document.set_embedding(&Tensor::vector(&[1.0, 0.5]));
    document
}
