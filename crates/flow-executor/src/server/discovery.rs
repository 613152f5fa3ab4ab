//! The endpoints that an executor offers, with the schemas of their documents for DocArray v2.
//!
//! A stock gateway of DocArray v2 makes its document classes from these JSON schemas and cannot start without them. Our
//! executors take any document and keep unknown fields, so one schema with the common fields serves for all methods that
//! do not describe their documents.

use flow_core::parameters::Accepts;
use flow_core::{Endpoint, Models, discovery, to_struct};
use flow_proto::jina::EndpointsProto;
use serde_json::{Map, Value, json};

use crate::endpoint_table::{EndpointTable, MethodKind};
use crate::sdk::{ClassSchema, MethodSchema};

pub(crate) fn endpoints(table: &EndpointTable, models: &Models) -> EndpointsProto {
    let mut endpoints = Vec::new();
    let mut schemas = Map::new();
    for (endpoint, bound) in table.endpoints() {
        let own = table.schema(bound.method);
        let mut described = schema(bound.kind, &own, table.accepts(bound.method));
        if let Some(model) = models.get(endpoint) {
            // An addition of ours, which stock gateways do not read.
            described[discovery::MODEL] = json!(model);
        }
        endpoints.push(endpoint.to_owned());
        schemas.insert(endpoint.to_owned(), described);
    }
    let own = MethodSchema::default();
    let dry_run = schema(MethodKind::Whole, &own, Accepts::Anything);
    endpoints.push(Endpoint::DRY_RUN.to_owned());
    schemas.insert(Endpoint::DRY_RUN.to_owned(), dry_run);
    EndpointsProto {
        endpoints,
        write_endpoints: Vec::new(),
        schemas: Some(to_struct(&schemas)),
    }
}

fn schema(kind: MethodKind, own: &MethodSchema, accepts: Accepts<'_>) -> Value {
    let mut described = json!({
        "input": class(own.input.as_ref()),
        "output": class(own.output.as_ref()),
        "is_generator": kind == MethodKind::Stream,
        "is_singleton_doc": kind == MethodKind::Stream || own.is_for_one_document,
        "parameters": parameters(own.parameters.as_ref(), accepts),
    });
    if own.input.is_some() {
        // An addition of ours.
        described[discovery::ANY_FORMAT] = json!(true);
    }
    described
}

/// A class of documents; that of any document if the method does not say.
fn class(own: Option<&ClassSchema>) -> Value {
    match own {
        Some(ClassSchema { name, schema }) => json!({ "name": name, "model": schema }),
        None => json!({ "name": discovery::ANY_DOCUMENT, "model": document() }),
    }
}

/// Stock gateways read `name` and `model`, a class of parameters with their types. `accepts` is an addition of ours.
fn parameters(own: Option<&ClassSchema>, accepts: Accepts<'_>) -> Value {
    let mut parameters = json!({
        "name": own.map(|it| &it.name),
        "model": own.map(|it| &it.schema),
    });
    if let Accepts::Only(accepted) = accepts {
        parameters[discovery::ACCEPTS] = accepted.names().collect();
    }
    parameters
}

/// The fields that most documents have. None is required, because a stock gateway checks even the empty document of its
/// dry run against them.
fn document() -> Value {
    let array = json!({
        "type": "array",
        "items": { "type": "number" },
        // Makes it an array of any shape and type, and not a list of floats.
        "tensor/array shape": "not specified",
    });
    json!({
        "title": discovery::ANY_DOCUMENT,
        "type": "object",
        "properties": {
            "id": optional("Id", &json!({ "type": "string" })),
            "text": optional("Text", &json!({ "type": "string" })),
            "blob": optional("Blob", &json!({ "type": "string", "format": "binary" })),
            "url": optional("Url", &json!({ "type": "string" })),
            "tensor": optional("Tensor", &array),
            "embedding": optional("Embedding", &array),
            "tags": {
                "title": "Tags",
                "type": "object",
                // Anything; the gateway would not understand `true`.
                "additionalProperties": {},
                "default": {},
            },
        },
    })
}

fn optional(title: &str, kind: &Value) -> Value {
    json!({ "title": title, "anyOf": [kind, { "type": "null" }], "default": null })
}
