//! The HTTP APIs of the gateway for models: OpenAI's, TEI's, Cohere's and the Open Inference Protocol.
//!
//! Flows with the sentence encoder answer raw requests and the real Python clients. The vectors of all of them are those
//! of the same flow over gRPC.

pub(crate) mod client;
mod client_errors;
mod client_interruptions;
mod cohere;
mod embed_sparse;
mod open_inference;
mod openai;
mod openapi;
mod predict;
mod python;
mod rerank;
mod routing;
mod tei;

use flow_core::{Deadline, DocumentArray};
use flow_tests::{TestFlow, texts};
use serde_json::Value;

/// The default model of the sentence encoder.
const MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";

const TEXTS: [&str; 2] = ["a text", "another, longer text"];

/// A flow with one sentence encoder.
fn encoder() -> TestFlow {
    TestFlow::up("executors: [{name: encoder, uses: sentence-encoder}]")
}

/// The vectors of these texts over gRPC.
async fn over_grpc(flow: &TestFlow, of: &[&str]) -> Vec<Vec<f32>> {
    let client = flow_tests::client(flow).await;
    let reply = client.single(texts("/encode", of), Deadline::NEVER).await;
    let documents = DocumentArray::decode(&reply.unwrap().data.unwrap()).unwrap();
    let vector = |document: &flow_core::Document| document.embedding().unwrap().to_f32().unwrap();
    documents.iter().map(vector).collect()
}

/// A list of numbers.
fn floats(value: &Value) -> Vec<f32> {
    let numbers = value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is not a list"));
    numbers
        .iter()
        .map(|it| it.as_f64().unwrap() as f32)
        .collect()
}

/// Lists of numbers.
fn rows(value: &Value) -> Vec<Vec<f32>> {
    let rows = value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is not a list"));
    rows.iter().map(floats).collect()
}

#[track_caller]
fn check_close(got: &[Vec<f32>], wanted: &[Vec<f32>]) {
    assert_eq!(got.len(), wanted.len());
    for (got, wanted) in got.iter().zip(wanted) {
        assert_eq!(got.len(), wanted.len());
        let differences = got.iter().zip(wanted).map(|(a, b)| (a - b).abs());
        let largest = differences.fold(0.0, f32::max);
        assert!(largest < 1e-6, "differs by {largest}");
    }
}
