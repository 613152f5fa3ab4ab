//! Creates documents with vectors, and calls an index.

use flow_core::{Document, DocumentArray, RequestId, Tensor};
use flow_net::PostOptions;
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_tests::{PlainReply, TestFlow, client, post, said};
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value};

/// A generator of pseudo-random numbers with a fixed seed.
#[derive(Debug)]
pub(super) struct Numbers(u32);

impl Default for Numbers {
    fn default() -> Self {
        Self(42)
    }
}

impl Numbers {
    /// Returns a vector of numbers from -1 to 1.
    pub(super) fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(self.0 >> 16).unwrap()) / 32_768.0 - 1.0
        };
        (0..dimensions).map(|_| next()).collect()
    }
}

pub(super) fn document(id: &str, vector: &[f32]) -> Document {
    let mut document = Document::from_text(&format!("text of {id}"));
    document.set_id(id);
    document.set_embedding(&Tensor::vector(vector));
    document
}

/// Creates a request to one executor, or to all of them.
fn request(to: (Option<&str>, &str), docs: &[Document], parameters: &Value) -> Envelope {
    let (executor, endpoint) = to;
    let docs: DocumentArray = docs.iter().cloned().collect();
    Envelope {
        header: Some(HeaderProto {
            request_id: RequestId::random().into(),
            exec_endpoint: Some(endpoint.to_owned()),
            target_executor: executor.map(str::to_owned),
            ..HeaderProto::default()
        }),
        data: (!docs.is_empty()).then(|| docs.encode()),
        parameters: parameters.as_object().map(flow_core::parameters::from_json),
        ..Envelope::default()
    }
}

/// Sends a request to all executors, and returns the reply.
pub(super) async fn call(
    flow: &TestFlow,
    endpoint: &str,
    docs: &[Document],
    parameters: &Value,
) -> PlainReply {
    let request = request((None, endpoint), docs, parameters);
    post(flow, vec![request]).await.remove(0)
}

/// Sends requests that are in progress together, and returns the replies.
pub(super) async fn post_all(
    flow: &TestFlow,
    endpoint: &str,
    requests: &[Vec<Document>],
) -> Vec<PlainReply> {
    let requests = requests.iter();
    let requests = requests.map(|docs| request((None, endpoint), docs, &Value::Null));
    post(flow, requests.collect()).await
}

pub(super) async fn index(flow: &TestFlow, docs: &[Document]) {
    let reply = call(flow, "/index", docs, &Value::Null).await;
    assert_eq!(reply.failure, None);
}

/// Calls one executor, and returns the message of its failure.
pub(super) async fn failure(
    flow: &TestFlow,
    (executor, endpoint): (&str, &str),
    docs: &[Document],
    parameters: &Value,
) -> String {
    let request = request((Some(executor), endpoint), docs, parameters);
    let said = post(flow, vec![request]).await.remove(0);
    said.failure.expect("it is refused")
}

/// Returns the documents that one executor finds, nearest first.
pub(super) async fn found(
    flow: &TestFlow,
    executor: &str,
    query: &Document,
    parameters: &Value,
) -> Vec<Document> {
    let query = request(
        (Some(executor), "/search"),
        std::slice::from_ref(query),
        parameters,
    );
    matches(flow, query).await
}

/// Sends a request with one query, and returns its matches.
pub(super) async fn matches(flow: &TestFlow, request: Envelope) -> Vec<Document> {
    let client = client(flow).await;
    let requests = stream::iter([request]);
    let replies = client.post(&PostOptions::default(), requests).await;
    let reply = replies.unwrap().next().await.unwrap().unwrap();
    assert_eq!(said(&reply).failure, None);
    let mut documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    std::mem::take(documents[0].matches_mut().unwrap())
}

/// Returns the reply of one executor to `/status`.
pub(super) async fn status(flow: &TestFlow, executor: &str) -> Map<String, Value> {
    let request = request((Some(executor), "/status"), &[], &Value::Null);
    let said = post(flow, vec![request]).await.remove(0);
    assert_eq!(said.failure, None);
    let results = said.results.into_iter();
    let mut own = results.filter(|(name, _)| name.starts_with(executor));
    own.next().unwrap().1.as_object().unwrap().clone()
}

/// Returns the number of entries in one executor.
pub(super) async fn count(flow: &TestFlow, executor: &str) -> u64 {
    status(flow, executor).await["count"].as_u64().unwrap()
}
