//! Calls the executor as the runtime does.

use flow_core::{DocArrayVersion, Document};
use flow_executor::testing::{Loaded, load};
use reranker::Reranker;
use serde_json::{Value, json};

use crate::tiny_model::TinyModel;

fn loaded(mut config: Value) -> (TinyModel, Loaded) {
    let model = TinyModel::classifier("bert", 1);
    config["model"] = json!(model.path());
    let loaded = load::<Reranker>(&config).unwrap();
    (model, loaded)
}

fn query(version: DocArrayVersion, text: &str, matches: &[&str]) -> Document {
    let document = |text: &str| {
        let mut document = Document::of_version(version);
        document.set_text(text);
        document
    };
    let mut query = document(text);
    query.set_matches(matches.iter().map(|text| document(text)).collect());
    query
}

fn call(loaded: &Loaded, docs: Vec<Document>, parameters: &Value) -> Result<Vec<Document>, String> {
    let parameters = parameters.as_object().unwrap().clone();
    let replied = loaded.call_with("/rank", docs.into_iter().collect(), parameters);
    let replied = replied.map_err(|error| error.to_string())?;
    Ok(replied.into_iter().collect())
}

/// The texts and scores of a document's matches.
fn ranked(document: &mut Document) -> Vec<(String, f32)> {
    let matches = document.matches_mut().unwrap().iter();
    matches
        .map(|found| (found.text(), found.score("relevance").unwrap()))
        .collect()
}

const TEXTS: [&str; 4] = ["a", "b c", "d d d", "c"];

#[test]
fn matches_of_both_docarray_versions_are_ordered_by_their_scores() {
    let (_model, reranker) = loaded(json!({}));
    let mut orders = Vec::new();
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let docs = vec![query(version, "a b", &TEXTS)];
        let mut after = call(&reranker, docs, &json!({})).unwrap();
        let ranked = ranked(&mut after[0]);
        assert!(ranked.is_sorted_by(|a, b| a.1 >= b.1), "{ranked:?}");
        assert!(ranked.iter().all(|(_, score)| (0.0..1.0).contains(score)));
        let mut texts: Vec<&str> = ranked.iter().map(|(text, _)| text.as_str()).collect();
        texts.sort_unstable();
        assert_eq!(texts, ["a", "b c", "c", "d d d"]);
        orders.push(ranked);
    }
    assert_eq!(orders[0], orders[1]);
}

#[test]
fn a_match_has_the_score_that_it_has_alone() {
    let (_model, reranker) = loaded(json!({"raw_scores": true}));
    let of = |text: &str, matches: &[&str]| query(DocArrayVersion::V1, text, matches);
    let docs = vec![of("a", &TEXTS), of("d c", &TEXTS[..2]), of("b", &[])];
    let mut together = call(&reranker, docs, &json!({"batch_size": 3})).unwrap();
    for (at, text) in ["a", "d c"].into_iter().enumerate() {
        for (found, score) in ranked(&mut together[at]) {
            let mut alone = call(&reranker, vec![of(text, &[&found])], &json!({})).unwrap();
            assert_eq!(ranked(&mut alone[0]), [(found, score)]);
        }
    }
    assert!(ranked(&mut together[2]).is_empty());
}

#[test]
fn documents_and_their_chunks_are_ordered_together_as_alone() {
    let (_model, reranker) = loaded(json!({"access_paths": "@r,c"}));
    let of = |text: &str| query(DocArrayVersion::V1, text, &TEXTS);
    let docs = ["a", "d c", "b"].map(|text| {
        let mut doc = of(text);
        doc.set_chunks(vec![of("c"), of(text)]);
        doc
    });
    let mut together = call(&reranker, docs.to_vec(), &json!({})).unwrap();
    for (doc, together) in docs.into_iter().zip(&mut together) {
        let mut alone = call(&reranker, vec![doc], &json!({})).unwrap().remove(0);
        assert_eq!(ranked(together), ranked(&mut alone));
        let chunks = together.chunks_mut().unwrap().iter_mut();
        for (chunk, alone) in chunks.zip(alone.chunks_mut().unwrap()) {
            assert_eq!(ranked(chunk), ranked(alone));
        }
    }
}

#[test]
fn a_request_or_the_flow_limits_the_matches_and_chooses_the_scores() {
    let (_model, reranker) = loaded(json!({"top_k": 3}));
    let rank = |parameters: &Value| {
        let docs = vec![query(DocArrayVersion::V1, "a b", &TEXTS)];
        ranked(&mut call(&reranker, docs, parameters).unwrap()[0])
    };
    let of_flow = rank(&json!({}));
    assert_eq!(of_flow.len(), 3);
    for parameters in [json!({"top_k": 1}), json!({"limit": 1})] {
        assert_eq!(rank(&parameters), of_flow[..1]);
    }
    let raw = rank(&json!({"raw_scores": true}));
    for ((_, raw), (_, score)) in raw.iter().zip(&of_flow) {
        let sigmoid = 1.0 / (1.0 + (-raw).exp());
        assert!((sigmoid - score).abs() < 1e-6, "{raw} {score}");
    }
}

#[test]
fn documents_without_a_text_or_without_matches_are_returned_unchanged() {
    let (_model, reranker) = loaded(json!({}));
    let without_text = query(DocArrayVersion::V1, "", &["b", "a"]);
    let docs = vec![without_text, Document::from_text("a")];
    let mut after = call(&reranker, docs, &json!({})).unwrap();
    let matches = after[0].matches_mut().unwrap().iter();
    let texts: Vec<String> = matches.map(Document::text).collect();
    assert_eq!(texts, ["b", "a"]);
    assert!(
        after[0].matches_mut().unwrap()[0]
            .score("relevance")
            .is_none()
    );
    assert!(call(&reranker, Vec::new(), &json!({})).unwrap().is_empty());
}

#[test]
fn a_pair_that_is_too_long_is_an_error_only_if_it_may_not_be_truncated() {
    let (_model, reranker) = loaded(json!({"max_length": 6}));
    let docs = || vec![query(DocArrayVersion::V1, "a", &["b", "d d d d d"])];
    assert!(call(&reranker, docs(), &json!({})).is_ok());
    let error = call(&reranker, docs(), &json!({"truncate": false})).unwrap_err();
    for part in ["more than 6 tokens together", "`d d d d d…`"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_invalid_parameter_is_the_fault_of_the_request() {
    let (_model, reranker) = loaded(json!({}));
    for parameters in [
        json!({"top_k": "many"}),
        json!({"raw_scores": 7}),
        json!({"access_paths": "@x"}),
    ] {
        let docs = vec![query(DocArrayVersion::V1, "a", &["b"])];
        let error = call(&reranker, docs, &parameters).unwrap_err();
        let name = parameters.as_object().unwrap().keys().next().unwrap();
        assert!(error.contains(name.as_str()), "{error}");
    }
}
