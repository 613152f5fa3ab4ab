//! What an executor tells of itself: its endpoints, and for the second flavour what goes in and out.
//!
//! A stock gateway of the second flavour builds its document classes from these JSON schemas and cannot
//! start without them. Our executors take any document and keep what they do not know, so one schema
//! that names the common fields stands for all.

use flow_core::{Endpoint, to_struct};
use flow_proto::jina::EndpointsProto;
use serde_json::{Map, Value, json};

use crate::directory::{Directory, Kind};

pub(crate) fn endpoints(directory: &Directory) -> EndpointsProto {
    let mut endpoints: Vec<String> = directory
        .endpoints()
        .map(|(endpoint, _)| endpoint.to_owned())
        .collect();
    endpoints.push(Endpoint::DRY_RUN.to_owned());
    let schemas: Map<String, Value> = directory
        .endpoints()
        .chain([(Endpoint::DRY_RUN, Kind::Whole)])
        .map(|(endpoint, kind)| (endpoint.to_owned(), schema(kind)))
        .collect();
    EndpointsProto {
        endpoints,
        write_endpoints: Vec::new(),
        schemas: Some(to_struct(&schemas)),
    }
}

fn schema(kind: Kind) -> Value {
    let document = json!({ "name": "FlowDoc", "model": document() });
    json!({
        "input": document,
        "output": document,
        "is_generator": kind == Kind::Stream,
        "is_singleton_doc": kind == Kind::Stream,
        "parameters": { "name": null, "model": null },
    })
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
        "title": "FlowDoc",
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
