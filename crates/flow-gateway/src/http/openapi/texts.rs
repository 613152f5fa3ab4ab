//! Schemas that several APIs share: texts, and vectors in all formats.

use serde::Serialize;
use serde_json::{Value, json};

use super::document::{Document, optional};

/// The formats of vectors.
const FORMATS: [&str; 6] = ["float", "base64", "int8", "uint8", "binary", "ubinary"];

/// A text, or a list of texts, each alone or as an object.
pub(super) fn texts(document: &mut Document) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let kind = json!({ "type": "string" });
    let entry = json!({
        "type": "object",
        "properties": { "type": kind, "text": text },
        "required": ["text"],
        "additionalProperties": false,
    });
    let list = json!({ "type": "array", "minItems": 1, "items": { "anyOf": [text, entry] } });
    document.schema("Texts", json!({ "anyOf": [text, list] }))
}

/// The same, or token ids in place of texts.
pub(super) fn texts_or_tokens(document: &mut Document) -> Value {
    let texts = texts(document);
    let id = json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
    let ids = json!({ "type": "array", "minItems": 1, "items": id });
    let lists = json!({ "type": "array", "minItems": 1, "items": ids });
    let about = "Token ids are those of the model's vocabulary, or of `cl100k_base` for the names of OpenAI's models";
    let any = json!({ "anyOf": [texts, ids, lists], "description": about });
    document.schema("TextsOrTokens", any)
}

/// The name of a format.
pub(super) fn format(document: &mut Document) -> Value {
    let about = "`float`: 32-bit floats. `base64`: the same as bytes, little endian. The others are smaller";
    let formats = json!({ "type": "string", "enum": FORMATS, "description": about });
    document.schema("VectorFormat", formats)
}

/// A vector as a list of floats.
pub(super) fn floats(document: &mut Document) -> Value {
    let floats = json!({ "type": "array", "items": { "type": "number" } });
    document.schema("Vector", floats)
}

/// A vector in any format.
pub(super) fn vector(document: &mut Document) -> Value {
    let floats = floats(document);
    let about = "A list of numbers, or with `base64` a text";
    let vector = json!({ "anyOf": [floats, { "type": "string" }], "description": about });
    document.schema("FormattedVector", vector)
}

/// The name of a model, which may be left out if the flow has one.
pub(super) fn model(names: &[impl Serialize]) -> Value {
    let mut model = optional("string");
    model["examples"] = json!(names);
    model["description"] = json!("A model of the flow; without it, the only one");
    model
}

/// The length of vectors.
pub(super) fn dimensions() -> Value {
    json!({
        "type": ["integer", "null"],
        "minimum": 1,
        "description": "The length of the vectors, if the model was trained for it",
    })
}

/// A value that can only be left out.
pub(super) fn unsupported(values: &[Value], about: &str) -> Value {
    json!({ "enum": values, "description": about })
}
