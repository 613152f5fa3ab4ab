//! Requests by our own client, and what their replies say.

use flow_core::{Document, DocumentArray, RequestId};
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value};

use crate::flow::TestFlow;

/// The tutorial's sentence: 14 tokens with the two special ones.
pub const TUTORIAL_SENTENCE: &str = "Using a GPU allows you to significantly speed up encoding.";

/// A request with a document for each text.
pub fn texts(endpoint: &str, texts: &[&str]) -> Envelope {
    request(endpoint, texts, &Value::Null)
}

/// The same with parameters.
pub fn request(endpoint: &str, texts: &[&str], parameters: &Value) -> Envelope {
    let parameters = parameters.as_object().map(flow_core::parameters::from_json);
    Envelope {
        parameters,
        ..texts_of(flow_core::DocArrayVersion::V1, endpoint, texts)
    }
}

/// Documents of one DocArray version.
pub fn texts_of(version: flow_core::DocArrayVersion, endpoint: &str, texts: &[&str]) -> Envelope {
    let document = |text: &&str| {
        let mut document = Document::of_version(version);
        document.set_text(text);
        document
    };
    let documents: DocumentArray = texts.iter().map(document).collect();
    Envelope {
        header: Some(HeaderProto {
            request_id: RequestId::random().into(),
            exec_endpoint: Some(endpoint.to_owned()),
            ..HeaderProto::default()
        }),
        data: (!texts.is_empty()).then(|| documents.encode()),
        ..Envelope::default()
    }
}

/// A client of a flow.
pub async fn client(flow: &TestFlow) -> Client {
    Client::connect(&flow.url()).await.unwrap()
}

/// Sends requests on one stream; their replies in the order of the requests.
pub async fn post(flow: &TestFlow, requests: Vec<Envelope>) -> Vec<PlainReply> {
    let options = PostOptions {
        results_in_order: true,
        ..PostOptions::default()
    };
    let replies = client(flow)
        .await
        .post(&options, stream::iter(requests))
        .await
        .unwrap();
    replies.map(|reply| said(&reply.unwrap())).collect().await
}

/// What a reply says, in plain values.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainReply {
    /// The texts of its documents.
    pub texts: Vec<String>,
    /// Why it failed; `None` if it did not.
    pub failure: Option<String>,
    /// The name of the exception that stock clients show for the failure.
    pub exception: Option<String>,
    /// What executors returned besides documents.
    pub results: Map<String, Value>,
    /// The processes that it went through.
    pub routes: Vec<String>,
    /// Each of them with the time it began and the time it ended.
    pub timed: bool,
}

/// Reads a reply.
pub fn said(reply: &Envelope) -> PlainReply {
    // A reply that reports malformed documents still contains them.
    let documents = reply
        .data
        .as_ref()
        .and_then(|data| DocumentArray::decode(data).ok());
    let documents = documents.unwrap_or_default();
    let status = reply
        .header
        .as_ref()
        .and_then(|header| header.status.clone());
    let status = status.filter(|status| status.code != 0);
    let parameters = flow_core::parameters::to_json(reply.parameters.as_ref()).unwrap();
    let results = parameters
        .get("__results__")
        .and_then(Value::as_object)
        .cloned();
    PlainReply {
        texts: documents.iter().map(Document::text).collect(),
        failure: status.as_ref().map(|status| status.description.clone()),
        exception: status.and_then(|status| Some(status.exception?.name)),
        results: results.unwrap_or_default(),
        timed: reply
            .routes
            .iter()
            .all(|it| it.start_time.is_some() && it.end_time.is_some()),
        routes: reply
            .routes
            .iter()
            .map(|route| route.executor.clone())
            .collect(),
    }
}
