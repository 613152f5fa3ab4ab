//! Cohere's route for embeddings.

use serde_json::{Value, json};

use super::document::{Document, EMBEDDING_FAILURES, Operation, object, optional};
use super::served::Served;
use super::texts::{dimensions, format, model, texts, unsupported, vector};

pub(super) const API: &str = "Cohere";

pub(super) const ERROR: &str = "CohereError";

/// Describes the route, if the flow serves it.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    if !served.has("/v2/embed") {
        return;
    }
    document.schema(ERROR, error());
    let request = request(document, served);
    let reply = reply(document);
    let example = json!({ "texts": ["hello world"], "embedding_types": ["float"] });
    let operation = Operation::new(API, "Encodes texts", (ERROR, EMBEDDING_FAILURES));
    let operation = operation.takes_such_as(&request, &example).replies(&reply);
    document.add("/v2/embed", "post", operation);
}

fn request(document: &mut Document, served: &Served<'_>) -> Value {
    let content = json!({
        "type": "array",
        "minItems": 1,
        "items": object(&["content"], &json!({ "content": texts(document) })),
        "description": "In place of `texts`: entries whose parts are encoded together",
    });
    let no_images = json!({ "type": ["array", "null"], "maxItems": 0, "description": "The models are for texts" });
    let fields = json!({
        "model": model(&served.models.encoders),
        "texts": texts(document),
        "inputs": content,
        "images": no_images,
        "input_type": input_type(),
        "embedding_types": { "type": ["array", "null"], "items": format(document) },
        "output_dimension": dimensions(),
        "max_tokens": unsupported(&[json!(null)], "Set `max_length` in the flow file"),
        "truncate": { "enum": [null, "START", "END", "NONE"] },
    });
    let mut request = object(&[], &fields);
    request["oneOf"] = json!([{ "required": ["texts"] }, { "required": ["inputs"] }]);
    document.schema("CohereEmbedRequest", request)
}

fn input_type() -> Value {
    let about =
        "`search_query` and `search_document` choose the prompt that the model has for such texts";
    let mut input_type = optional("string");
    input_type["description"] = json!(about);
    input_type
}

fn reply(document: &mut Document) -> Value {
    let vectors = json!({ "type": "array", "items": vector(document) });
    let reply = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "embeddings": {
                "type": "object",
                "additionalProperties": vectors,
                "description": "The vectors, by format",
            },
            "texts": { "type": "array", "items": { "type": "string" } },
            "meta": { "type": "object" },
            "response_type": { "const": "embeddings_by_type" },
        },
        "required": ["id", "embeddings", "texts", "meta", "response_type"],
    });
    document.schema("CohereEmbedReply", reply)
}

pub(super) fn error() -> Value {
    json!({
        "type": "object",
        "properties": { "id": { "type": "string" }, "message": { "type": "string" } },
        "required": ["message"],
    })
}
