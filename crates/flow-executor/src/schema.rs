//! What an executor tells of itself: its endpoints, and for the second flavour what goes in and out.
//!
//! A stock gateway of the second flavour builds its document classes from these JSON schemas and cannot
//! start without them. Our executors take any document and keep what they do not know, so one schema
//! that names the common fields stands for all.

use flow_core::parameters::Accepts;
use flow_core::{Endpoint, discovery, to_struct};
use flow_proto::jina::EndpointsProto;
use serde_json::{Map, Value, json};

use crate::directory::{Directory, Kind};

pub(crate) fn endpoints(directory: &Directory) -> EndpointsProto {
    let mut endpoints = Vec::new();
    let mut schemas = Map::new();
    for (endpoint, found) in directory.endpoints() {
        let described = schema(found.kind, directory.accepts(found.method));
        endpoints.push(endpoint.to_owned());
        schemas.insert(endpoint.to_owned(), described);
    }
    let dry_run = schema(Kind::Whole, Accepts::Anything);
    endpoints.push(Endpoint::DRY_RUN.to_owned());
    schemas.insert(Endpoint::DRY_RUN.to_owned(), dry_run);
    EndpointsProto {
        endpoints,
        write_endpoints: Vec::new(),
        schemas: Some(to_struct(&schemas)),
    }
}

fn schema(kind: Kind, accepts: Accepts<'_>) -> Value {
    let document = json!({ "name": discovery::ANY_DOCUMENT, "model": document() });
    json!({
        "input": document,
        "output": document,
        "is_generator": kind == Kind::Stream,
        "is_singleton_doc": kind == Kind::Stream,
        "parameters": parameters(accepts),
    })
}

/// Stock gateways read `name` and `model`, a class of parameters with their types; `accepts` is ours.
fn parameters(accepts: Accepts<'_>) -> Value {
    let mut parameters = json!({ "name": null, "model": null });
    if let Accepts::Only(accepted) = accepts {
        parameters[discovery::ACCEPTS] = accepted.names().collect();
    }
    parameters
}

/// The fields that most documents have, none of them required: a stock gateway checks even the empty
/// document of its dry run against this.
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
                // Anything: `true` would say so too, but the gateway looks into it.
                "additionalProperties": {},
                "default": {},
            },
        },
    })
}

fn optional(title: &str, kind: &Value) -> Value {
    json!({ "title": title, "anyOf": [kind, { "type": "null" }], "default": null })
}
