//! The route for classification, that of text-embeddings-inference.

use serde_json::json;

use super::document::{Document, Operation, object, optional};
use super::served::Served;
use super::tei;
use super::texts::model;

/// Describes the route if the flow serves it.
pub(super) fn describe(document: &mut Document, served: &Served<'_>) {
    if !served.classifies("/predict") {
        return;
    }
    let text = json!({ "type": "string", "minLength": 1 });
    let texts = json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": text });
    let several = json!({ "type": "array", "minItems": 1, "items": texts });
    let inputs = json!({
        "anyOf": [text, texts, several],
        "description": "A text, a pair of texts, or a list of lists with a text or a pair each",
    });
    let top_k = json!({ "type": ["integer", "null"], "minimum": 1, "description": "Maximum number of labels in the reply" });
    let parameters = json!({
        "type": ["object", "null"],
        "properties": { "top_k": top_k, "function_to_apply": { "enum": [null, "none"] } },
        "additionalProperties": false,
    });
    let fields = json!({
        "inputs": inputs,
        "truncate": optional("boolean"),
        "truncation_direction": tei::direction(),
        "raw_scores": optional("boolean"),
        "parameters": parameters,
        "model": model(&served.models.classifiers),
    });
    let request = document.schema("TeiPredictRequest", object(&["inputs"], &fields));
    let prediction = json!({
        "type": "object",
        "properties": { "label": { "type": "string" }, "score": { "type": "number" } },
        "required": ["label", "score"],
    });
    let prediction = document.schema("TeiPrediction", prediction);
    let of_text = json!({ "type": "array", "items": prediction });
    let reply = json!({ "anyOf": [of_text, { "type": "array", "items": of_text }] });
    let about = "Classifies texts: the score of each label";
    let operation = Operation::new(tei::API, about, (tei::ERROR, tei::FAILURES));
    let operation = operation
        .takes_such_as(&request, &json!({ "inputs": "I like you" }))
        .replies(&reply);
    let operation = tei::with_compute_headers(operation);
    if served.models.encoders.is_empty() && served.models.rerankers.is_empty() {
        document.add("/", "post", operation.clone());
    }
    document.add("/predict", "post", operation);
}
