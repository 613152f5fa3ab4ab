//! The endpoints that an executor offers, with the schemas of their documents for DocArray v2.
//!
//! A stock gateway of DocArray v2 makes its document classes from these JSON schemas and cannot start without them. Our
//! executors take any document and keep unknown fields, so one schema with the common fields serves for all.

use flow_core::parameters::Accepts;
use flow_core::{Endpoint, Models, discovery, to_struct};
use flow_proto::jina::EndpointsProto;
use serde_json::{Map, Value, json};

use crate::endpoint_table::{EndpointTable, MethodKind};

pub(crate) fn endpoints(table: &EndpointTable, models: &Models) -> EndpointsProto {
    let mut endpoints = Vec::new();
    let mut schemas = Map::new();
    for (endpoint, bound) in table.endpoints() {
        let mut described = schema(bound.kind, table.accepts(bound.method));
        if let Some(model) = models.get(endpoint) {
            // An addition of ours, which stock gateways do not read.
            described[discovery::MODEL] = json!(model);
        }
        endpoints.push(endpoint.to_owned());
        schemas.insert(endpoint.to_owned(), described);
    }
    let dry_run = schema(MethodKind::Whole, Accepts::Anything);
    endpoints.push(Endpoint::DRY_RUN.to_owned());
    schemas.insert(Endpoint::DRY_RUN.to_owned(), dry_run);
    EndpointsProto {
        endpoints,
        write_endpoints: Vec::new(),
        schemas: Some(to_struct(&schemas)),
    }
}

fn schema(kind: MethodKind, accepts: Accepts<'_>) -> Value {
    let document = json!({ "name": discovery::ANY_DOCUMENT, "model": document() });
    json!({
        "input": document,
        "output": document,
        "is_generator": kind == MethodKind::Stream,
        "is_singleton_doc": kind == MethodKind::Stream,
        "parameters": parameters(accepts),
    })
}

/// Stock gateways read `name` and `model`, a class of parameters with their types. `accepts` is an addition of ours.
fn parameters(accepts: Accepts<'_>) -> Value {
    let mut parameters = json!({ "name": null, "model": null });
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
