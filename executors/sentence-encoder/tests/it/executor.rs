//! The executor as the runtime calls it.

use flow_core::{Document, DocumentArray, Flavour};
use flow_executor::testing::{Loaded, load};
use sentence_encoder::SentenceEncoder;
use serde_json::{Map, Value, json};

use crate::tiny_model::TinyModel;

fn loaded(made: &TinyModel, mut with: Value) -> Loaded {
    with["model"] = json!(made.path());
    load::<SentenceEncoder>(&with).unwrap()
}

fn encode(loaded: &Loaded, docs: Vec<Document>, parameters: Value) -> Vec<Document> {
    let Value::Object(parameters) = parameters else {
        panic!("parameters are objects")
    };
    let docs = docs.into_iter().collect();
    loaded
        .call_with("/encode", docs, parameters)
        .unwrap()
        .into_iter()
        .collect()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}

fn vector(document: &Document) -> Vec<f32> {
    document
        .embedding()
        .expect("it has a vector")
        .to_f32()
        .unwrap()
}

#[test]
fn documents_of_both_flavours_get_vectors_and_keep_the_rest() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    for flavour in [Flavour::V1, Flavour::V2] {
        let mut document = Document::of_flavour(flavour);
        document.set_text("a b c");
        let before = document.clone();
        let after = encode(&encoder, vec![document], json!({}));
        assert_eq!(after[0].embedding().unwrap().shape(), [8]);
        assert_eq!(after[0].embedding().unwrap().data_type().as_str(), "<f4");
        assert_eq!(
            (after[0].id(), after[0].text()),
            (before.id(), before.text())
        );
    }
}

#[test]
fn documents_without_a_text_pass_as_they_are() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    let empty = Document::new();
    let docs = vec![empty.clone(), Document::from_text("a"), empty.clone()];
    let after = encode(&encoder, docs, json!({}));
    assert_eq!((&after[0], &after[2]), (&empty, &empty));
    assert!(after[1].embedding().is_some());
    assert_eq!(encode(&encoder, Vec::new(), json!({})), Vec::new());
}

#[test]
fn access_paths_choose_the_documents_and_a_request_may_choose_others() {
    let family = || {
        let mut root = Document::from_text("a");
        root.chunks_mut().unwrap().push(Document::from_text("b"));
        root
    };
    let encoder = loaded(&TinyModel::bert(), json!({"access_paths": "@c"}));
    for (parameters, root, chunk) in [
        (json!({}), false, true),
        (json!({"access_paths": "@r,c"}), true, true),
        (
            json!({"traversal_paths": ["r"], "batch_size": 1}),
            true,
            false,
        ),
    ] {
        let mut after = encode(&encoder, vec![family()], parameters.clone());
        let has = after[0].embedding().is_some();
        let chunk_has = after[0].chunks_mut().unwrap()[0].embedding().is_some();
        assert_eq!((has, chunk_has), (root, chunk), "{parameters}");
    }
}

#[test]
fn a_parameter_that_makes_no_sense_is_the_callers_fault() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    for (name, value) in [("access_paths", json!("@x")), ("batch_size", json!(0))] {
        let parameters = Map::from_iter([(name.to_owned(), value)]);
        let docs = DocumentArray::from_iter([Document::from_text("a")]);
        let failure = encoder.call_with("/encode", docs, parameters).unwrap_err();
        assert!(failure.to_string().contains(name), "{failure}");
    }
}

#[test]
fn a_misspelt_parameter_is_refused_at_every_endpoint() {
    let encoder = loaded(&MadeUp::bert(), json!({}));
    for endpoint in ["/encode", "/index"] {
        let parameters = Map::from_iter([("batchsize".to_owned(), json!(1))]);
        let docs = DocumentArray::from_iter([Document::from_text("a")]);
        let failure = encoder.call_with(endpoint, docs, parameters).unwrap_err();
        let said =
            format!("`{endpoint}` accepts no parameter `batchsize`; did you mean `batch_size`?");
        assert_eq!(failure.message(), said);
    }
}

#[test]
fn dimensions_cut_the_vector_and_normalise_what_is_left() {
    let made = TinyModel::bert();
    let whole = vector(
        &encode(
            &loaded(&made, json!({})),
            vec![Document::from_text("a b")],
            json!({}),
        )[0],
    );
    let cut = loaded(&made, json!({"dimensions": 4, "normalize": true}));
    let cut = vector(&encode(&cut, vec![Document::from_text("a b")], json!({}))[0]);
    let length = whole[..4]
        .iter()
        .map(|value| value * value)
        .sum::<f32>()
        .sqrt();
    let wanted: Vec<f32> = whole[..4].iter().map(|value| value / length).collect();
    assert!(largest_difference(&cut, &wanted) < 1e-6);
}

#[test]
fn a_prompt_stands_before_each_text() {
    let made = TinyModel::bert();
    made.write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"query": "c d "}}),
    );
    let plain = loaded(&made, json!({}));
    let wanted = vector(&encode(&plain, vec![Document::from_text("c d a")], json!({}))[0]);
    for with in [json!({"prompt": "c d "}), json!({"prompt_name": "query"})] {
        let prompted = loaded(&made, with);
        let got = vector(&encode(&prompted, vec![Document::from_text("a")], json!({}))[0]);
        assert_eq!(got, wanted);
    }
}

#[test]
fn max_length_cuts_a_text_and_keeps_its_last_special_token() {
    let made = TinyModel::bert();
    let short = loaded(&made, json!({"max_length": 4}));
    let got = vector(&encode(&short, vec![Document::from_text("a b c d")], json!({}))[0]);
    let whole = loaded(&made, json!({}));
    let wanted = vector(&encode(&whole, vec![Document::from_text("a b")], json!({}))[0]);
    assert_eq!(got, wanted);
}

#[test]
fn the_model_says_how_to_pool_unless_the_user_does() {
    let made = TinyModel::bert();
    let steps = json!([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]);
    made.write("modules.json", &steps);
    made.write(
        "1_Pooling/config.json",
        &json!({"pooling_mode_cls_token": true}),
    );
    let of = |with: Value| {
        vector(
            &encode(
                &loaded(&made, with),
                vec![Document::from_text("a b")],
                json!({}),
            )[0],
        )
    };
    assert_eq!(of(json!({})), of(json!({"pooling": "cls"})));
    assert!(largest_difference(&of(json!({})), &of(json!({"pooling": "mean"}))) > 1e-3);
}

#[test]
fn a_device_that_is_not_there_ends_the_start() {
    let made = TinyModel::bert();
    let with = json!({"model": made.path(), "device": "cuda:0"});
    let error = load::<SentenceEncoder>(&with)
        .err()
        .expect("there is no GPU")
        .to_string();
    assert!(
        error.contains("`cuda:0`") && error.contains("`cpu`"),
        "{error}"
    );
}

#[test]
fn it_tells_its_device_and_its_model() {
    let encoder = loaded(&TinyModel::bert(), json!({"device": "auto"}));
    assert_eq!(encoder.facts()["device"], "cpu");
    assert_eq!(encoder.facts()["dimensions"], "8");
}
