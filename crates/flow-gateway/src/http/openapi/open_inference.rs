//! The routes of the Open Inference Protocol.

use serde_json::{Value, json};

use super::document::{
    Document, EMBEDDING_FAILURES, Failure, NO_MODEL, Operation, object, optional,
};
use super::served::Served;

const API: &str = "Open Inference Protocol";

const ERROR: &str = "OpenInferenceError";

/// The error of a route that says whether something is ready.
const READY_ERROR: &str = "OpenInferenceNotReady";

const UNREADY: &[Failure] = &[(503, "An executor is not ready")];

const UNREADY_OR_NONE: &[Failure] = &[
    (404, "There is no such model"),
    (503, "An executor is not ready"),
];

/// Where a model is found; its only version may be named.
const MODEL: [&str; 2] = [
    "/v2/models/{model}",
    "/v2/models/{model}/versions/{version}",
];

/// Describes the routes that the flow serves.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    let error = document.schema(ERROR, error());
    let unready = json!({ "anyOf": [error, flag("ready")] });
    document.schema(READY_ERROR, unready);
    server(document);
    if served.models.encoders.is_empty() {
        return;
    }
    let request = request(document);
    let reply = reply(document);
    for path in MODEL {
        let of_model = |summary, failures| of_model(path, served, (summary, failures));
        let path_of = |operation: &str| format!("{path}/{operation}");
        let model = of_model("The tensors of a model", (ERROR, NO_MODEL));
        document.add(path, "get", model.replies(&described_model()));
        let ready = of_model("Whether a model is ready", (READY_ERROR, UNREADY_OR_NONE));
        document.add(&path_of("ready"), "get", ready.replies(&flag("ready")));
        let infer = of_model("Encodes the texts of a tensor", (ERROR, EMBEDDING_FAILURES));
        let json = json!({ "schema": request, "example": example() });
        let replies = json!({
            "application/json": { "schema": reply },
            "application/octet-stream": { "schema": {} },
        });
        let infer = infer
            .takes_content(&json!({ "application/json": json }))
            .replies_content(BINARY, &replies);
        document.add(&path_of("infer"), "post", infer);
    }
}

const BINARY: &str = "JSON, or with `binary_data` JSON and then the bytes of the tensor; the header \
                      `inference-header-content-length` has the length of the JSON";

fn server(document: &mut Document) {
    let text = json!({ "type": "string" });
    let about = json!({
        "type": "object",
        "properties": {
            "name": text,
            "version": text,
            "extensions": { "type": "array", "items": text },
        },
        "required": ["name", "version", "extensions"],
    });
    let server = Operation::new(API, "The server and its version", (ERROR, &[]));
    document.add("/v2", "get", server.replies(&about));
    let live = Operation::new(API, "Whether the gateway runs", (ERROR, &[]));
    document.add("/v2/health/live", "get", live.replies(&flag("live")));
    let ready = "Whether every executor is ready";
    let ready = Operation::new(API, ready, (READY_ERROR, UNREADY));
    document.add("/v2/health/ready", "get", ready.replies(&flag("ready")));
}

/// An operation on the model of a path.
fn of_model(
    path: &str,
    served: &Served<'_>,
    (summary, failures): (&str, (&'static str, &'static [Failure])),
) -> Operation {
    let about = "The name of a model; `/` in it may be written as it is";
    let name = json!({ "type": "string", "minLength": 1, "examples": served.models.encoders });
    let operation = Operation::new(API, summary, failures);
    let operation = operation.with_path_parameter("model", &name, about);
    match path.contains("{version}") {
        true => {
            let version = json!({ "type": "string", "minLength": 1, "examples": ["1"] });
            operation.with_path_parameter("version", &version, "Every model has the version 1")
        }
        false => operation,
    }
}

fn example() -> Value {
    let texts = json!(["hello world"]);
    let input = json!({ "name": "text", "datatype": "BYTES", "shape": [1], "data": texts });
    json!({ "inputs": [input] })
}

fn request(document: &mut Document) -> Value {
    let parameters = json!({ "type": "object" });
    let length = json!({ "type": "integer", "minimum": 0 });
    let input = json!({
        "name": { "type": "string" },
        "datatype": { "const": "BYTES" },
        "shape": { "type": "array", "items": length },
        "parameters": parameters,
        "data": { "type": "array", "description": "The texts, nested as the shape is" },
    });
    let output = json!({ "name": { "const": "embedding" }, "parameters": parameters });
    let input = object(&["name", "datatype", "shape", "data"], &input);
    let fields = json!({
        "id": optional("string"),
        "parameters": parameters,
        "inputs": { "type": "array", "minItems": 1, "maxItems": 1, "items": input },
        "outputs": { "type": "array", "items": object(&["name"], &output) },
    });
    document.schema("OpenInferenceRequest", object(&["inputs"], &fields))
}

fn reply(document: &mut Document) -> Value {
    let output = json!({
        "type": "object",
        "properties": {
            "name": { "const": "embedding" },
            "datatype": { "const": "FP32" },
            "shape": { "type": "array", "items": { "type": "integer" } },
            "parameters": { "type": "object" },
            "data": { "type": "array", "items": { "type": "number" } },
        },
        "required": ["name", "datatype", "shape"],
    });
    let reply = json!({
        "type": "object",
        "properties": {
            "model_name": { "type": "string" },
            "model_version": { "type": "string" },
            "id": { "type": "string" },
            "outputs": { "type": "array", "items": output },
        },
        "required": ["model_name", "outputs"],
    });
    document.schema("OpenInferenceReply", reply)
}

fn described_model() -> Value {
    let tensors = json!({ "type": "array", "items": { "type": "object" } });
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "versions": { "type": "array", "items": { "type": "string" } },
            "platform": { "type": "string" },
            "inputs": tensors,
            "outputs": tensors,
        },
        "required": ["name", "platform", "inputs", "outputs"],
    })
}

fn flag(name: &str) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "boolean" } },
        "required": [name],
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "properties": { "error": { "type": "string" } },
        "required": ["error"],
    })
}
