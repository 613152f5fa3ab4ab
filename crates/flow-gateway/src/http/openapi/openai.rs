//! OpenAI's routes, with Jina AI's fields.

use serde_json::{Value, json};

use super::document::{Document, EMBEDDING_FAILURES, NO_MODEL, Operation, object, optional};
use super::served::Served;
use super::texts::{dimensions, format, model, texts_or_tokens, unsupported, vector};

const API: &str = "OpenAI and Jina AI";

const ERROR: &str = "OpenAiError";

/// Describes the routes that the flow serves.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    document.schema(ERROR, error());
    let one = document.schema("OpenAiModel", described_model());
    let list = json!({
        "type": "object",
        "properties": { "object": { "const": "list" }, "data": { "type": "array", "items": one } },
        "required": ["object", "data"],
    });
    let models = Operation::new(API, "Lists the models", (ERROR, &[]));
    document.add("/v1/models", "get", models.replies(&list));
    let about = "The name of a model; `/` in it may be written as it is";
    let name = json!({ "type": "string", "minLength": 1, "examples": served.all_models() });
    let retrieved = Operation::new(API, "Describes a model", (ERROR, NO_MODEL));
    let retrieved = retrieved
        .with_path_parameter("model", &name, about)
        .replies(&one);
    document.add("/v1/models/{model}", "get", retrieved);
    if served.has("/v1/embeddings") {
        let request = request(document, served);
        let reply = reply(document);
        let example = json!({ "input": ["hello world"] });
        let operation = Operation::new(API, "Encodes texts", (ERROR, EMBEDDING_FAILURES));
        let operation = operation.takes_such_as(&request, &example).replies(&reply);
        document.add("/v1/embeddings", "post", operation);
    }
}

fn request(document: &mut Document, served: &Served<'_>) -> Value {
    let trained = "Needs a model that was trained for it";
    let of_format = json!({ "anyOf": [format(document), { "type": "null" }] });
    let task = "Chooses the prompt that the model has for such texts: `retrieval.query`, `retrieval.passage`, or the name of a prompt";
    let no = unsupported(&[json!(null), json!(false)], trained);
    let fields = json!({
        "input": texts_or_tokens(document),
        "model": model(&served.models.encoders),
        "encoding_format": of_format,
        "embedding_type": of_format,
        "dimensions": dimensions(),
        "user": { "description": "Has no effect" },
        "normalized": optional("boolean"),
        "truncate": optional("boolean"),
        "task": { "type": ["string", "null"], "description": task },
        "late_chunking": no,
        "return_multivector": no,
    });
    document.schema("OpenAiEmbeddingsRequest", object(&["input"], &fields))
}

fn reply(document: &mut Document) -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    let embedding = json!({
        "type": "object",
        "properties": {
            "object": { "const": "embedding" },
            "index": count,
            "embedding": vector(document),
        },
        "required": ["object", "index", "embedding"],
    });
    let usage = json!({
        "type": "object",
        "properties": { "prompt_tokens": count, "total_tokens": count },
        "required": ["prompt_tokens", "total_tokens"],
        "description": "The tokens that the model read; left out if its executor does not count them",
    });
    let reply = json!({
        "type": "object",
        "properties": {
            "object": { "const": "list" },
            "data": { "type": "array", "items": embedding },
            "model": { "type": "string" },
            "usage": usage,
        },
        "required": ["object", "data", "model"],
    });
    document.schema("OpenAiEmbeddingsReply", reply)
}

fn described_model() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "object": { "const": "model" },
            "created": { "type": "integer" },
            "owned_by": { "type": "string" },
            "executor": { "type": "string" },
            "root": { "type": "string" },
            "kind": { "type": "string" },
            "dimensions": { "type": "integer" },
            "max_model_len": { "type": "integer" },
            "pooling": { "type": "string" },
            "prompts": { "type": "array", "items": { "type": "string" } },
            "precision": { "type": "string" },
        },
        "required": ["id", "object", "created", "owned_by"],
    })
}

fn error() -> Value {
    let error = json!({
        "type": "object",
        "properties": {
            "message": { "type": "string" },
            "type": { "type": "string" },
            "param": optional("string"),
            "code": optional("string"),
        },
        "required": ["message", "type", "param", "code"],
    });
    json!({ "type": "object", "properties": { "error": error }, "required": ["error"] })
}
