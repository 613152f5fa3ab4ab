//! Calls the executor as the runtime does.

use flow_core::{DocArrayVersion, Document};
use flow_executor::testing::{Loaded, load};
use serde_json::{Map, Value, json};
use text_classifier::TextClassifierExecutor;

use crate::tiny_model::TinyModel;

const LABELS: [&str; 3] = ["bad", "neutral", "good"];

fn loaded(mut config: Value) -> (TinyModel, Loaded) {
    let labels = json!({"0": LABELS[0], "1": LABELS[1], "2": LABELS[2]});
    let model = TinyModel::classifier("bert", LABELS.len()).configured("id2label", labels);
    config["model"] = json!(model.path());
    let loaded = load::<TextClassifierExecutor>(&config).unwrap();
    (model, loaded)
}

fn document(version: DocArrayVersion, text: &str) -> Document {
    let mut document = Document::of_version(version);
    document.set_text(text);
    document
}

fn call(loaded: &Loaded, docs: Vec<Document>, parameters: &Value) -> Result<Vec<Document>, String> {
    let parameters = parameters.as_object().unwrap().clone();
    let replied = loaded.call_with("/classify", docs.into_iter().collect(), parameters);
    let replied = replied.map_err(|error| error.to_string())?;
    Ok(replied.into_iter().collect())
}

fn scores(document: &Document) -> Vec<Option<f32>> {
    LABELS.iter().map(|label| document.score(label)).collect()
}

#[test]
fn documents_of_both_docarray_versions_get_scores_and_the_best_label() {
    let (_model, classifier) = loaded(json!({}));
    let mut found = Vec::new();
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let after = call(&classifier, vec![document(version, "a b")], &json!({})).unwrap();
        let scores: Vec<f32> = scores(&after[0]).into_iter().flatten().collect();
        assert!(
            (scores.iter().sum::<f32>() - 1.0).abs() < 1e-6,
            "{scores:?}"
        );
        let best = scores.iter().copied().fold(0.0, f32::max);
        let best = scores.iter().position(|score| *score == best).unwrap();
        assert_eq!(after[0].tags()["label"], LABELS[best]);
        found.push(scores);
    }
    assert_eq!(found[0], found[1]);
}

#[test]
fn a_request_or_the_flow_limits_the_labels_and_chooses_the_scores() {
    let (_model, classifier) = loaded(json!({"top_k": 2, "label_tag": null}));
    let of = |parameters: &Value| {
        let docs = vec![document(DocArrayVersion::V1, "a b")];
        call(&classifier, docs, parameters).unwrap().remove(0)
    };
    let count = |parameters: &Value| scores(&of(parameters)).into_iter().flatten().count();
    assert_eq!(count(&json!({})), 2);
    assert_eq!(count(&json!({"top_k": 1})), 1);
    assert_eq!(count(&json!({"limit": 3})), 3);
    assert!(of(&json!({})).tags().is_empty());
    let all = |raw: bool| {
        let scores = scores(&of(&json!({"top_k": 3, "raw_scores": raw})));
        scores.into_iter().flatten().collect::<Vec<f32>>()
    };
    let powers: Vec<f32> = all(true).iter().map(|raw| raw.exp()).collect();
    let sum: f32 = powers.iter().sum();
    for (power, score) in powers.iter().zip(all(false)) {
        assert!((power / sum - score).abs() < 1e-6, "{power} {score}");
    }
}

#[test]
fn a_text_has_the_scores_that_it_has_alone() {
    let (_model, classifier) = loaded(json!({"access_paths": "@r,c"}));
    let mut docs = ["a", "b c", "d d d"].map(|text| {
        let mut doc = document(DocArrayVersion::V1, text);
        doc.set_chunks(vec![document(DocArrayVersion::V1, "c")]);
        doc
    });
    docs[1].set_tags(&Map::from_iter([("text_pair".to_owned(), json!("a"))]));
    let mut together = call(&classifier, docs.to_vec(), &json!({"batch_size": 2})).unwrap();
    for (doc, together) in docs.iter().zip(&mut together) {
        let mut alone = call(&classifier, vec![doc.clone()], &json!({}))
            .unwrap()
            .remove(0);
        assert_eq!(scores(together), scores(&alone));
        let chunk = |doc: &mut Document| scores(&doc.chunks_mut().unwrap()[0]);
        assert_eq!(chunk(together), chunk(&mut alone));
    }
    let without_pair = call(
        &classifier,
        vec![document(DocArrayVersion::V1, "b c")],
        &json!({}),
    );
    assert_ne!(scores(&without_pair.unwrap()[0]), scores(&together[1]));
}

#[test]
fn documents_without_a_text_are_returned_unchanged() {
    let (_model, classifier) = loaded(json!({}));
    let docs = vec![Document::from_text(""), Document::from_text("a")];
    let after = call(&classifier, docs, &json!({})).unwrap();
    assert_eq!(scores(&after[0]), [None; 3]);
    assert!(after[0].tags().is_empty());
    assert!(
        call(&classifier, Vec::new(), &json!({}))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn an_invalid_request_is_an_error_that_says_why() {
    let (_model, classifier) = loaded(json!({"max_length": 6}));
    let error = |text: &str, parameters: &Value| {
        let docs = vec![document(DocArrayVersion::V1, text)];
        call(&classifier, docs, parameters).unwrap_err()
    };
    let long = error("d d d d d", &json!({"truncate": false}));
    for part in ["more than 6 tokens", "`d d d d d…`"] {
        assert!(long.contains(part), "{long}");
    }
    for (parameters, part) in [
        (json!({"top_k": 0}), "`top_k`"),
        (json!({"raw_scores": 7}), "`raw_scores`"),
        (json!({"labels": 1}), "`labels`"),
    ] {
        let error = error("a", &parameters);
        assert!(error.contains(part), "{error}");
    }
}
