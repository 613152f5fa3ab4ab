//! The routes of text-embeddings-inference.

use serde_json::{Value, json};

use super::document::{Document, Failure, NO_MODEL, Operation, object, optional};
use super::served::Served;
use super::texts::{dimensions, floats, model, texts, texts_or_tokens};

pub(super) const API: &str = "text-embeddings-inference";

/// The status codes of failures.
pub(super) const FAILURES: &[Failure] = &[
    (400, "There is nothing to encode, or the body is not JSON"),
    (404, "There is no such model"),
    (
        413,
        "A text is too long, and the request forbids truncation",
    ),
    (422, "A field is invalid"),
    (424, "An executor failed"),
    (429, "The gateway is busy, or a limit is reached"),
    (503, "An executor is not ready, or cannot be reached"),
    (504, "The deadline passed"),
];

pub(super) const ERROR: &str = "TeiError";

const UNREADY: &[Failure] = &[(503, "An executor is not ready, or cannot be reached")];

/// Headers that say what a call took.
const COMPUTE: &[(&str, &str)] = &[
    ("x-compute-type", "`cpu` or `gpu`"),
    ("x-compute-time", "Milliseconds of the call"),
    ("x-total-time", "Milliseconds of the call"),
    (
        "x-tokenization-time",
        "Milliseconds until the first texts were tokens",
    ),
    ("x-queue-time", "Milliseconds of waiting at the executor"),
    (
        "x-inference-time",
        "Milliseconds that the executor took, without tokenization",
    ),
    ("x-compute-characters", "Characters of the texts"),
    ("x-compute-tokens", "Tokens that the model read"),
];

/// Describes the routes that the flow serves.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    document.schema(ERROR, error());
    for path in ["/health", "/ping"] {
        let health = Operation::new(API, "Whether every executor is ready", (ERROR, UNREADY));
        let health = health.replies_nothing("Every executor is ready");
        document.add(path, "get", health);
    }
    if !served.all_models().is_empty() {
        info(document, served);
    }
    sparse_vectors(document, served);
    if served.models.encoders.is_empty() {
        return;
    }
    let request = embed_request(document, served);
    let example = json!({ "inputs": ["hello world"] });
    let reply = json!({ "type": "array", "items": floats(document) });
    let embed = Operation::new(API, "Encodes texts", (ERROR, FAILURES));
    let embed = with_compute_headers(embed.takes_such_as(&request, &example).replies(&reply));
    for path in ["/embed", "/"] {
        if served.has(path) {
            document.add(path, "post", embed.clone());
        }
    }
    similarity(document, served);
    token_vectors(document, served);
    tokens(document, served);
}

pub(super) fn with_compute_headers(operation: Operation) -> Operation {
    let add = |operation: Operation, (name, about): &(&str, &str)| {
        let kind = match *name {
            "x-compute-type" => "string",
            _ => "integer",
        };
        operation.with_reply_header(name, &json!({ "type": kind }), about)
    };
    COMPUTE.iter().fold(operation, add)
}

fn embed_request(document: &mut Document, served: &Served<'_>) -> Value {
    let fields = json!({
        "inputs": texts_or_tokens(document),
        "truncate": optional("boolean"),
        "truncation_direction": direction(),
        "prompt_name": prompt(),
        "normalize": optional("boolean"),
        "dimensions": dimensions(),
        "model": model(&served.models.encoders),
    });
    document.schema("TeiEmbedRequest", object(&["inputs"], &fields))
}

fn similarity(document: &mut Document, served: &Served<'_>) {
    if !served.has("/similarity") {
        return;
    }
    let text = json!({ "type": "string", "minLength": 1 });
    let sentences = json!({
        "source_sentence": text,
        "sentences": { "type": "array", "minItems": 1, "items": text },
    });
    let parameters = json!({
        "truncate": optional("boolean"),
        "truncation_direction": direction(),
        "prompt_name": prompt(),
    });
    let parameters = json!({ "anyOf": [object(&[], &parameters), { "type": "null" }] });
    let fields = json!({
        "inputs": object(&["source_sentence", "sentences"], &sentences),
        "parameters": parameters,
        "model": model(&served.models.encoders),
    });
    let request = document.schema("TeiSimilarityRequest", object(&["inputs"], &fields));
    let inputs = json!({ "source_sentence": "a cat", "sentences": ["a dog", "a house"] });
    let reply = floats(document);
    let operation = Operation::new(
        API,
        "Compares a text with others: the cosines of their vectors",
        (ERROR, FAILURES),
    );
    let operation = operation
        .takes_such_as(&request, &json!({ "inputs": inputs }))
        .replies(&reply);
    let operation = with_compute_headers(operation);
    document.add("/similarity", "post", operation);
}

/// The route of executors that give the vectors of tokens.
fn token_vectors(document: &mut Document, served: &Served<'_>) {
    if !served.has_token_vectors || !served.has("/embed_all") {
        return;
    }
    let fields = json!({
        "inputs": texts(document),
        "truncate": optional("boolean"),
        "truncation_direction": direction(),
        "prompt_name": prompt(),
        "model": model(&served.models.encoders),
    });
    let request = document.schema("TeiEmbedAllRequest", object(&["inputs"], &fields));
    let vectors = json!({ "type": "array", "items": floats(document) });
    let operation = Operation::new(API, "The vectors of the tokens of texts", (ERROR, FAILURES));
    let operation = operation
        .takes_such_as(&request, &json!({ "inputs": ["hello world"] }))
        .replies(&json!({ "type": "array", "items": vectors }));
    document.add("/embed_all", "post", with_compute_headers(operation));
}

/// The route of models that make sparse vectors.
fn sparse_vectors(document: &mut Document, served: &Served<'_>) {
    if !served.embeds_sparsely("/embed_sparse") {
        return;
    }
    let fields = json!({
        "inputs": texts(document),
        "truncate": optional("boolean"),
        "truncation_direction": direction(),
        "prompt_name": prompt(),
        "model": model(&served.models.sparse_encoders),
    });
    let request = document.schema("TeiEmbedSparseRequest", object(&["inputs"], &fields));
    let weight = json!({
        "type": "object",
        "properties": { "index": { "type": "integer", "minimum": 0 }, "value": { "type": "number" } },
        "required": ["index", "value"],
    });
    let weight = document.schema("TeiSparseValue", weight);
    let vector = json!({ "type": "array", "items": weight });
    let about = "Encodes texts as sparse vectors: the weight of each word that a text is about";
    let operation = Operation::new(API, about, (ERROR, FAILURES));
    let operation = operation
        .takes_such_as(&request, &json!({ "inputs": ["hello world"] }))
        .replies(&json!({ "type": "array", "items": vector }));
    let operation = with_compute_headers(operation);
    let models = &served.models;
    let others = [&models.encoders, &models.rerankers, &models.classifiers];
    if others.iter().all(|names| names.is_empty()) {
        document.add("/", "post", operation.clone());
    }
    document.add("/embed_sparse", "post", operation);
}

/// The routes of executors that have a tokenizer.
fn tokens(document: &mut Document, served: &Served<'_>) {
    if served.tokenizes && served.has("/tokenize") {
        let fields = json!({
            "inputs": texts(document),
            "add_special_tokens": optional("boolean"),
            "prompt_name": prompt(),
            "model": model(&served.models.encoders),
        });
        let request = document.schema("TeiTokenizeRequest", object(&["inputs"], &fields));
        let tokens = json!({ "type": "array", "items": { "type": "object" } });
        let operation = Operation::new(API, "The tokens of texts", (ERROR, FAILURES));
        let operation = operation
            .takes_such_as(&request, &json!({ "inputs": ["hello world"] }))
            .replies(&json!({ "type": "array", "items": tokens }));
        document.add("/tokenize", "post", operation);
    }
    if served.decodes && served.has("/decode") {
        let id = json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
        let ids = json!({ "type": "array", "items": id });
        let several = json!({ "type": "array", "minItems": 1, "items": ids });
        let fields = json!({
            "ids": { "anyOf": [ids, several] },
            "skip_special_tokens": optional("boolean"),
            "model": model(&served.models.encoders),
        });
        let request = document.schema("TeiDecodeRequest", object(&["ids"], &fields));
        let operation = Operation::new(API, "The texts of tokens", (ERROR, FAILURES));
        let operation = operation
            .takes_such_as(&request, &json!({ "ids": [7592, 2088] }))
            .replies(&json!({ "type": "array", "items": { "type": "string" } }));
        document.add("/decode", "post", operation);
    }
}

fn info(document: &mut Document, served: &Served<'_>) {
    let reply = json!({
        "type": "object",
        "properties": {
            "model_id": { "type": "string" },
            "model_dtype": optional("string"),
            "model_type": { "type": "object" },
            "max_input_length": optional("integer"),
            "max_client_batch_size": { "type": "integer" },
            "max_concurrent_requests": optional("integer"),
            "version": { "type": "string" },
        },
        "required": ["model_id", "model_type", "max_client_batch_size", "version"],
    });
    let reply = document.schema("TeiInfo", reply);
    let about = "Which model, if the flow has several";
    let operation = Operation::new(
        API,
        "The model, and the limits of requests",
        (ERROR, NO_MODEL),
    );
    let operation = operation
        .with_query_parameter("model", &model(&served.all_models()), about)
        .replies(&reply);
    document.add("/info", "get", operation);
}

pub(super) fn direction() -> Value {
    json!({
        "enum": [null, "Left", "left", "Right", "right"],
        "description": "The side at which a long text is cut: its beginning or its end, which is the default",
    })
}

fn prompt() -> Value {
    let mut prompt = optional("string");
    prompt["description"] = json!("One of the model's own prompts, in place of its default one");
    prompt
}

fn error() -> Value {
    json!({
        "type": "object",
        "properties": { "error": { "type": "string" }, "error_type": { "type": "string" } },
        "required": ["error", "error_type"],
    })
}
