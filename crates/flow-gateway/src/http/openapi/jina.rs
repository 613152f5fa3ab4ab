//! Jina's routes: the fixed ones, and one for each endpoint that executors offer, with the schemas of its documents.

use flow_core::Endpoint;
use flow_spec::HttpOptions;
use serde_json::{Value, json};

use super::document::{Document, Operation};
use super::served::Served;
use crate::discovery::OfferedEndpoints;
use crate::http::jina::{CRUD, POST};

const API: &str = "Jina";

const ERROR: &str = "JinaError";

/// Describes the routes that the flow serves.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    document.schema(ERROR, failure());
    fixed(document, served.options);
    endpoints(document, served.offered);
}

/// The routes that do not depend on the executors.
fn fixed(document: &mut Document, options: &HttpOptions) {
    let request = document.schema("JinaRequest", v1_request());
    let reply = document.schema("JinaResponse", v1_reply());
    let call = |summary: &str| operation(summary, &reply).takes(&request);
    document.add("/", "get", read("Health of the service"));
    if !options.no_debug_endpoints {
        document.add(
            "/status",
            "get",
            read("Versions of the program and the machine"),
        );
        document.add("/dry_run", "get", read("Whether the whole flow works"));
    }
    for (endpoint, exposed) in &options.exposed {
        let summary = format!("Calls `{endpoint}`");
        let summary = exposed.summary.as_deref().unwrap_or(&summary);
        for method in &exposed.methods {
            document.add(&exposed.path, &method.to_lowercase(), call(summary));
        }
    }
    if !options.no_debug_endpoints {
        let about = "Calls the endpoint that the body names";
        document.add(POST, "post", call(about));
    }
    if !options.no_crud_endpoints {
        for (method, path) in &CRUD {
            let method = method.as_str().to_lowercase();
            document.add(path, &method, call(&format!("Calls `{path}`")));
        }
    }
}

/// A route for each endpoint of the executors.
fn endpoints(document: &mut Document, offered: &OfferedEndpoints) {
    let combined = offered.combined();
    let schemas = combined.schemas.as_ref().map(flow_core::from_struct);
    let schemas = schemas.unwrap_or_default();
    for endpoint in &combined.endpoints {
        if endpoint == Endpoint::DRY_RUN || !endpoint.starts_with('/') {
            continue;
        }
        let empty = Value::Null;
        let schema = schemas.get(endpoint).unwrap_or(&empty);
        let input = model(document, &schema["input"]);
        let output = model(document, &schema["output"]);
        let parameters = match &schema["parameters"]["model"] {
            Value::Null => json!({ "type": ["object", "null"] }),
            _ => model(document, &schema["parameters"]),
        };
        let summary = format!("Calls `{endpoint}`");
        if offered.is_generator(endpoint) {
            document.add(endpoint, "get", events(&summary, &input));
        } else {
            let request = v2_request(&input, &parameters);
            let called = operation(&summary, &v2_reply(&output)).takes(&request);
            document.add(endpoint, "post", called);
        }
    }
}

/// The schema of documents or parameters that an executor describes with a name and a JSON schema. Definitions within
/// the schema become schemas of the document.
fn model(document: &mut Document, described: &Value) -> Value {
    let Value::Object(model) = &described["model"] else {
        return json!({ "type": "object" });
    };
    let mut model = Value::Object(model.clone());
    for key in ["definitions", "$defs"] {
        let definitions = model.as_object_mut().and_then(|it| it.remove(key));
        for (name, definition) in definitions.iter().filter_map(Value::as_object).flatten() {
            document.schema(name, with_references(definition));
        }
    }
    match described["name"].as_str() {
        Some(name) => document.schema(name, with_references(&model)),
        None => with_references(&model),
    }
}

/// The schema, whose references name schemas of the document.
fn with_references(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| match (name.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        let last = target.rsplit('/').next().unwrap_or(target);
                        let target = format!("#/components/schemas/{last}");
                        (name.clone(), Value::String(target))
                    }
                    _ => (name.clone(), with_references(value)),
                });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(with_references).collect(),
        other => other.clone(),
    }
}

fn read(summary: &str) -> Operation {
    operation(summary, &json!({ "type": "object" }))
}

fn operation(summary: &str, reply: &Value) -> Operation {
    Operation::new(API, summary, (ERROR, &[])).replies(reply)
}

/// An endpoint that streams documents.
fn events(summary: &str, input: &Value) -> Operation {
    let stream = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    Operation::new(API, summary, (ERROR, &[]))
        .takes_perhaps(input)
        .replies_content("A document for each event", &stream)
}

fn failure() -> Value {
    json!({ "type": "object", "properties": { "detail": {} } })
}

fn v1_request() -> Value {
    let document = json!({ "type": "object" });
    json!({
        "type": "object",
        "properties": {
            "data": { "anyOf": [
                { "type": "array", "items": document },
                { "type": "object" },
                { "type": "null" },
            ] },
            "execEndpoint": { "type": "string", "default": "/" },
            "targetExecutor": { "type": ["string", "null"] },
            "parameters": { "type": ["object", "null"] },
        },
    })
}

fn v1_reply() -> Value {
    json!({
        "type": "object",
        "properties": {
            "header": { "type": "object" },
            "parameters": { "type": "object" },
            "routes": { "type": "array", "items": { "type": "object" } },
            "data": { "type": "array", "items": { "type": "object" } },
        },
    })
}

fn v2_request(input: &Value, parameters: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": { "anyOf": [{ "type": "array", "items": input }, input] },
            "parameters": parameters,
            "header": {
                "type": ["object", "null"],
                "properties": {
                    "requestId": { "type": ["string", "null"] },
                    "targetExecutor": { "type": ["string", "null"] },
                },
            },
        },
    })
}

fn v2_reply(output: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": { "type": "array", "items": output },
            "parameters": { "type": "object" },
            "header": { "type": "object" },
        },
    })
}
