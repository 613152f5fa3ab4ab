//! Requests → texts and parameters.

use serde_json::Value;

use super::super::json_request::parse;
use super::*;

fn translate(body: &Value) -> Result<EmbedRequest, ApiError> {
    let body = serde_json::to_vec(body).unwrap();
    let mut request = parse::<EmbedBody>(&body, EMBED_FIELDS)?;
    let texts = request.inputs()?.texts("inputs")?;
    Ok(request.translate(texts))
}

#[test]
fn a_request_is_normalized_unless_it_asks_for_what_the_model_makes() {
    let plain = translate(&json!({"inputs": "a"})).unwrap();
    assert_eq!((plain.texts.len(), plain.normalize), (1, true));
    assert!(plain.parameters.is_empty());
    let raw = translate(&json!({"inputs": ["a", "b"], "normalize": false, "truncate": false}));
    let raw = raw.unwrap();
    assert!(!raw.normalize);
    assert_eq!(Value::Object(raw.parameters), json!({"normalize": false}));
    assert_eq!(raw.truncation.truncate, Some(false));
}

#[test]
fn a_request_chooses_the_side_at_which_texts_are_cut() {
    let left = |body: Value| translate(&body).unwrap().truncation.left;
    let field = Some("truncation_direction");
    assert_eq!(left(json!({"inputs": "a"})), None);
    for (direction, expected) in [("Left", field), ("left", field), ("Right", None)] {
        let body = json!({"inputs": "a", "truncation_direction": direction});
        assert_eq!(left(body), expected, "{direction}");
    }
}

#[test]
fn inputs_and_options_that_are_not_known_are_refused() {
    for (body, field) in [
        (
            json!({"inputs": "a", "truncation_direction": "Up"}),
            "truncation_direction",
        ),
        (json!({"inputs": [1, 2]}), "inputs"),
        (json!({}), "inputs"),
    ] {
        assert_eq!(translate(&body).unwrap_err().field, Some(field), "{body}");
    }
}

#[test]
fn sentences_are_compared_with_their_source() {
    let body = json!({"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}, "parameters": {"truncate": true}});
    let body: SimilarityBody = serde_json::from_value(body).unwrap();
    assert_eq!(body.translate().unwrap().texts, ["a", "b", "c"]);
    let none = json!({"inputs": {"source_sentence": "a", "sentences": []}});
    let none: SimilarityBody = serde_json::from_value(none).unwrap();
    assert_eq!(none.translate().unwrap_err().kind, ErrorKind::Empty);
    let vectors = [vec![1.0, 0.0], vec![0.0, 1.0], vec![0.6, 0.8]];
    assert_eq!(cosines(&vectors), [0.0, 0.6]);
}
