//! Calls the executor as the runtime does.

use flow_core::{DocArrayVersion, Document, DocumentArray, ModelKind};
use flow_executor::testing::{Loaded, load};
use serde_json::{Value, json};
use sparse_encoder::SparseEncoderExecutor;

use crate::tiny_model::TinyModel;

fn loaded(mut config: Value) -> (TinyModel, Loaded) {
    let model = TinyModel::masked_lm("bert", true);
    config["model"] = json!(model.path());
    let loaded = load::<SparseEncoderExecutor>(&config).unwrap();
    (model, loaded)
}

fn document(version: DocArrayVersion, text: &str) -> Document {
    let mut document = Document::of_version(version);
    document.set_text(text);
    document
}

fn call(loaded: &Loaded, docs: Vec<Document>, parameters: &Value) -> Result<Vec<Document>, String> {
    let parameters = parameters.as_object().unwrap().clone();
    let replied = loaded.call_with("/encode", docs.into_iter().collect(), parameters);
    let replied = replied.map_err(|error| error.to_string())?;
    Ok(replied.into_iter().collect())
}

fn text(text: &str) -> Vec<Document> {
    vec![document(DocArrayVersion::V1, text)]
}

#[test]
fn documents_of_both_docarray_versions_get_the_same_vector_in_a_tag() {
    let (_model, encoder) = loaded(json!({}));
    let tags = [DocArrayVersion::V1, DocArrayVersion::V2].map(|version| {
        let after = call(&encoder, vec![document(version, "a b")], &json!({})).unwrap();
        Value::Object(after[0].tags())
    });
    let [v1, v2] = tags;
    let vector = &v1["sparse_embedding"];
    let (indices, values) = (&vector["indices"], &vector["values"]);
    let indices: Vec<u64> = serde_json::from_value(indices.clone()).unwrap();
    let values: Vec<f32> = serde_json::from_value(values.clone()).unwrap();
    assert!(!indices.is_empty() && indices.is_sorted());
    assert_eq!(indices.len(), values.len());
    assert!(values.iter().all(|value| *value > 0.0));
    assert_eq!(v2["sparse_embedding"]["values"], vector["values"]);
    assert_eq!(v2["sparse_embedding"]["indices"], vector["indices"]);
}

#[test]
fn a_request_or_the_flow_limits_the_weights_and_names_the_tag() {
    let (_model, encoder) = loaded(json!({"top_k": 2, "tag": "words"}));
    let weights = |parameters: Value, tag: &str| {
        let after = call(&encoder, text("a b c"), &parameters).unwrap();
        let vector = after[0].tags().remove(tag).unwrap();
        vector["indices"].as_array().unwrap().len()
    };
    assert_eq!(weights(json!({}), "words"), 2);
    assert_eq!(weights(json!({"top_k": 1}), "words"), 1);
    assert_eq!(weights(json!({"limit": 1, "tag": "other"}), "other"), 1);
}

#[test]
fn other_documents_stay_as_they_are_and_tokens_are_counted() {
    let (_model, encoder) = loaded(json!({"access_paths": "@c"}));
    let mut whole = document(DocArrayVersion::V1, "a");
    whole.set_chunks(text("b c"));
    let docs: DocumentArray = [whole.clone()].into_iter().collect();
    let mut after = call(&encoder, vec![whole], &json!({})).unwrap();
    assert!(after[0].tags().is_empty());
    let chunks = after[0].chunks_mut().unwrap();
    assert!(chunks[0].tags().contains_key("sparse_embedding"));
    let usage = encoder.usage("/encode", docs).unwrap().unwrap();
    assert_eq!(usage.tokens, 4);
}

#[test]
fn a_text_that_is_too_long_is_cut_or_refused() {
    let (_model, encoder) = loaded(json!({"max_length": 5}));
    let vector = |words: &str, parameters: Value| {
        let after = call(&encoder, text(words), &parameters);
        after.map(|after| Value::Object(after[0].tags()))
    };
    let long = "a b c d";
    assert_eq!(vector(long, json!({})), vector("a b c", json!({})));
    let left = json!({"truncation_direction": "left"});
    assert_eq!(vector(long, left), vector("b c d", json!({})));
    let error = vector(long, json!({"truncate": false})).unwrap_err();
    assert!(error.contains("more than 5 tokens"), "{error}");
    let error = vector(long, json!({"truncation_direction": "up"})).unwrap_err();
    assert!(error.contains("`truncation_direction`"), "{error}");
}

#[test]
fn the_model_is_reported() {
    let (_model, encoder) = loaded(json!({}));
    let model = &encoder.models()["/encode"];
    assert_eq!(model.kind, ModelKind::SparseEmbedding);
    assert_eq!((model.dimensions, model.max_length), (8, 16));
}
