//! The routes for reranking: those of text-embeddings-inference, Cohere and Jina AI.

use serde_json::{Value, json};

use super::document::{Document, EMBEDDING_FAILURES, Operation, object, optional};
use super::served::Served;
use super::texts::{model, texts, unsupported};
use super::{cohere, tei};

const ABOUT: &str = "Orders texts by how well they answer a query";

/// Describes the routes that the flow serves.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    of_tei(document, served);
    of_cohere(document, served);
}

fn of_tei(document: &mut Document, served: &Served<'_>) {
    if !served.reranks("/rerank") {
        return;
    }
    let text = json!({ "type": "string", "minLength": 1 });
    let fields = json!({
        "query": text,
        "texts": { "type": "array", "minItems": 1, "items": text },
        "truncate": optional("boolean"),
        "truncation_direction": tei::direction(),
        "raw_scores": optional("boolean"),
        "return_text": optional("boolean"),
        "model": model(&served.models.rerankers),
    });
    let request = document.schema("TeiRerankRequest", object(&["query", "texts"], &fields));
    let rank = json!({
        "type": "object",
        "properties": {
            "index": { "type": "integer" },
            "score": { "type": "number" },
            "text": { "type": "string" },
        },
        "required": ["index", "score"],
    });
    let rank = document.schema("TeiRank", rank);
    let example = json!({ "query": "hello", "texts": ["hello world", "goodbye"] });
    let operation = Operation::new(tei::API, ABOUT, (tei::ERROR, tei::FAILURES));
    let operation = operation
        .takes_such_as(&request, &example)
        .replies(&json!({ "type": "array", "items": rank }));
    let operation = tei::with_compute_headers(operation);
    if served.models.encoders.is_empty() {
        document.add("/", "post", operation.clone());
    }
    document.add("/rerank", "post", operation);
}

fn of_cohere(document: &mut Document, served: &Served<'_>) {
    for path in ["/v2/rerank", "/v1/rerank"] {
        if !served.reranks(path) {
            continue;
        }
        document.schema(cohere::ERROR, cohere::error());
        let request = cohere_request(document, served);
        let reply = cohere_reply(document);
        let example = json!({ "query": "hello", "documents": ["hello world", "goodbye"] });
        let operation = Operation::new(cohere::API, ABOUT, (cohere::ERROR, EMBEDDING_FAILURES));
        let operation = operation.takes_such_as(&request, &example).replies(&reply);
        document.add(path, "post", operation);
    }
}

fn cohere_request(document: &mut Document, served: &Served<'_>) -> Value {
    let no_length = unsupported(&[json!(null)], "Set `max_length` in the flow file");
    let top_n =
        json!({ "type": ["integer", "null"], "minimum": 1, "description": "Texts of the reply" });
    let fields = json!({
        "model": model(&served.models.rerankers),
        "query": { "type": "string", "minLength": 1 },
        "documents": texts(document),
        "top_n": top_n,
        "return_documents": optional("boolean"),
        "max_tokens_per_doc": no_length,
        "max_chunks_per_doc": no_length,
        "rank_fields": unsupported(&[json!(null), json!([]), json!(["text"])], "Documents have a text only"),
        "truncation": optional("boolean"),
        "priority": { "description": "Has no effect" },
    });
    document.schema(
        "CohereRerankRequest",
        object(&["query", "documents"], &fields),
    )
}

fn cohere_reply(document: &mut Document) -> Value {
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let result = json!({
        "type": "object",
        "properties": {
            "index": { "type": "integer" },
            "relevance_score": { "type": "number" },
            "document": text,
        },
        "required": ["index", "relevance_score"],
    });
    let result = document.schema("CohereRank", result);
    let reply = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "results": { "type": "array", "items": result },
            "meta": { "type": "object" },
            "model": { "type": "string" },
            "usage": { "type": "object" },
        },
        "required": ["id", "results", "meta"],
    });
    document.schema("CohereRerankReply", reply)
}
