//! Documents as JSON and back, with arrays of every type as lists of numbers, as DocArray writes them.

use flow_core::{DocArrayVersion, Document};
use pyo3::prelude::*;
use serde_json::Value;

use super::errors::bad_document;
use super::numpy;
use super::values::value_from_python;

const CONTENTS: [&str; 2] = ["text", "blob"];
const ARRAYS: [&str; 2] = ["tensor", "embedding"];

pub(super) fn to_json(py: Python<'_>, mut document: Document) -> PyResult<Value> {
    let mut json = document.to_json().map_err(bad_document)?;
    adapt(py, &mut document, &mut json)?;
    Ok(json)
}

/// Writes the numbers of arrays for which the JSON has only bytes, and leaves out a text and a blob that are empty.
fn adapt(py: Python<'_>, document: &mut Document, json: &mut Value) -> PyResult<()> {
    if let Value::Object(fields) = json {
        fields.retain(|name, value| !CONTENTS.contains(&name.as_str()) || *value != "");
    }
    for name in ARRAYS {
        let Some(array @ Value::Object(_)) = json.get_mut(name) else {
            continue;
        };
        let tensor = match name {
            "tensor" => document.tensor(),
            _ => document.embedding(),
        };
        if let Some(tensor) = tensor {
            let numbers = numpy::to_python(py, &tensor)?.call_method0("tolist")?;
            *array = value_from_python(&numbers)?;
        }
    }
    for name in ["chunks", "matches"] {
        let Some(Value::Array(values)) = json.get_mut(name) else {
            continue;
        };
        let documents = match name {
            "chunks" => document.chunks_mut(),
            _ => document.matches_mut(),
        };
        for (document, json) in documents.map_err(bad_document)?.iter_mut().zip(values) {
            adapt(py, document, json)?;
        }
    }
    Ok(())
}

pub(super) fn from_json(mut json: Value) -> PyResult<Document> {
    read_truth_values(&mut json);
    Document::from_json(DocArrayVersion::V1, &json).map_err(bad_document)
}

/// Arrays of truth values become numbers.
fn read_truth_values(document: &mut Value) {
    for name in ARRAYS {
        if let Some(array) = document.get_mut(name) {
            as_numbers(array);
        }
    }
    for name in ["chunks", "matches"] {
        if let Some(Value::Array(nested)) = document.get_mut(name) {
            nested.iter_mut().for_each(read_truth_values);
        }
    }
}

fn as_numbers(array: &mut Value) {
    match array {
        Value::Array(items) => items.iter_mut().for_each(as_numbers),
        Value::Bool(flag) => *array = Value::from(u8::from(*flag)),
        _ => {}
    }
}
