//! The API for classification, text-embeddings-inference's, at a flow with an encoder and a classifier.

use flow_core::{Deadline, Document, DocumentArray};
use flow_proto::Envelope;
use flow_tests::{TestFlow, request};
use serde_json::{Map, Value, json};

use super::client::{get, post};
use crate::tiny_model::TinyModel;

const LABELS: [&str; 3] = ["bad", "neutral", "good"];

fn model() -> TinyModel {
    let labels = json!({"0": LABELS[0], "1": LABELS[1], "2": LABELS[2]});
    TinyModel::classifier("bert", LABELS.len()).configured("id2label", labels)
}

/// A flow with an encoder and a classifier that gives one label unless a request asks for more.
fn classifier(model: &TinyModel) -> TestFlow {
    TestFlow::up(&format!(
        "executors:\n\
         - {{name: encoder, uses: sentence-encoder}}\n\
         - {{name: classifier, uses: text-classifier, uses_with: {{model: '{}', top_k: 1}}}}",
        model.path().display()
    ))
}

/// The labels of a text or pair with their scores, the best first, as the executor gives them over gRPC.
async fn over_grpc(flow: &TestFlow, text: &str, pair: Option<&str>) -> Value {
    let mut document = Document::from_text(text);
    if let Some(pair) = pair {
        document.set_tags(&Map::from_iter([("text_pair".to_owned(), json!(pair))]));
    }
    let documents: DocumentArray = [document].into_iter().collect();
    let client = flow_tests::client(flow).await;
    let request = Envelope {
        data: Some(documents.encode()),
        ..request("/classify", &[], &json!({"top_k": LABELS.len()}))
    };
    let reply = client.single(request, Deadline::NEVER).await.unwrap();
    let documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    let document = documents.into_iter().next().unwrap();
    let score = |label: &&'static str| (*label, document.score(label).unwrap());
    let mut scores: Vec<(&str, f32)> = LABELS.iter().map(score).collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert_eq!(document.tags()["label"], scores[0].0);
    let entry = |(label, score)| json!({"label": label, "score": score});
    Value::Array(scores.into_iter().map(entry).collect())
}

/// The same numbers as 32-bit floats.
fn narrow(mut scores: Value) -> Value {
    for entry in scores.as_array_mut().unwrap() {
        entry["score"] = json!(entry["score"].as_f64().unwrap() as f32);
    }
    scores
}

#[tokio::test]
async fn texts_and_pairs_are_classified_as_over_grpc() {
    let model = model();
    let flow = classifier(&model);
    let text = over_grpc(&flow, "a b", None).await;
    let pair = over_grpc(&flow, "a b", Some("c")).await;
    for (inputs, expected) in [
        (json!("a b"), &text),
        (json!(["a b"]), &text),
        (json!(["a b", "c"]), &pair),
    ] {
        let reply = post(&flow, "/predict", &json!({"inputs": inputs})).await;
        assert_eq!(narrow(reply.json()), *expected, "{inputs}");
        assert!(reply.headers.contains_key("server-timing"));
    }
    let body = json!({"inputs": [["a b"], ["a b", "c"]], "model": "classifier"});
    let reply = post(&flow, "/predict", &body).await;
    let texts = reply.json().as_array().unwrap().clone();
    let texts: Vec<Value> = texts.into_iter().map(narrow).collect();
    assert_eq!(texts, [text, pair]);
    assert_eq!(reply.number("x-compute-characters"), 7);
    assert_eq!(reply.number("x-compute-tokens"), 4 + 6);
}

#[tokio::test]
async fn a_call_of_many_texts_is_answered_in_its_order() {
    let model = model();
    let flow = classifier(&model);
    let texts = ["a", "b c", "d d d"];
    let inputs: Vec<[&str; 1]> = texts.into_iter().cycle().take(150).map(|it| [it]).collect();
    let body = json!({"inputs": inputs, "raw_scores": true});
    let found = post(&flow, "/predict", &body).await.json();
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 150);
    assert_ne!(found[0], found[1]);
    assert!((3..150).all(|place| found[place] == found[place % 3]));
}

#[tokio::test]
async fn a_classifier_is_listed_with_its_labels() {
    let model = model();
    let flow = classifier(&model);
    let models = get(&flow, "/v1/models").await.json();
    let kinds = models["data"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|it| &it["kind"]).collect();
    assert_eq!(json!(kinds), json!(["embedding", "classifier"]));
    let info = get(&flow, "/info?model=classifier").await.json();
    let labels = &info["model_type"]["classifier"];
    assert_eq!(labels["id2label"]["2"], "good");
    assert_eq!(labels["label2id"]["bad"], 0);
    let embedded = post(&flow, "/embed", &json!({"inputs": "a"})).await;
    assert_eq!(embedded.status, 200);
}

#[tokio::test]
async fn the_client_of_hugging_face_gets_the_best_label() {
    let model = model();
    let flow = TestFlow::up(&format!(
        "executors: [{{name: classifier, uses: text-classifier, uses_with: {{model: '{}'}}}}]",
        model.path().display()
    ));
    let arguments = [flow.port().to_string(), "a b".to_owned()];
    let Some(got) = flow_tests::http_clients("predict_clients.py", &arguments) else {
        return;
    };
    let expected = over_grpc(&flow, "a b", None).await[0].clone();
    let narrowed = |call: &str| narrow(json!([got[call]]))[0].clone();
    assert_eq!(narrowed("predict"), expected);
    assert_eq!(narrowed("root"), expected);
    assert_eq!(got["raw"]["label"], expected["label"]);
    assert_ne!(narrowed("raw"), expected);
    let limited = json!({"inputs": "a b", "parameters": {"top_k": 2}});
    let limited = post(&flow, "/", &limited).await.json();
    assert_eq!(limited.as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn an_invalid_request_is_an_error_that_says_why() {
    let model = model();
    let flow = classifier(&model);
    let long = "d ".repeat(50);
    for (body, status, part) in [
        (json!({}), 422, "`inputs` is missing"),
        (json!({"inputs": []}), 400, "`inputs` is empty"),
        (json!({"inputs": ""}), 400, "text 0 of `inputs` is empty"),
        (
            json!({"inputs": [["a"], ["", ""]]}),
            400,
            "text 1 of `inputs` is empty",
        ),
        (
            json!({"inputs": ["a", "b", "c"]}),
            422,
            "several texts are a list of lists",
        ),
        (
            json!({"inputs": long, "truncate": false}),
            413,
            "more than 16 tokens",
        ),
        (
            json!({"inputs": "a", "model": "encoder"}),
            404,
            "is not a classifier",
        ),
    ] {
        let reply = post(&flow, "/predict", &body).await;
        let message = reply.json()["error"].to_string();
        assert_eq!(reply.status, status, "{body} {message}");
        assert!(message.contains(part), "{body} {message}");
    }
}

#[tokio::test]
async fn a_request_chooses_the_side_at_which_a_long_text_is_cut() {
    let model = model();
    let flow = classifier(&model);
    // The model reads 16 tokens, two of which are special.
    let end = ["d", "c"].repeat(7).join(" ");
    let long = format!("a b {end}");
    let scores = async |text: &str, direction: &str| {
        let body = json!({"inputs": text, "truncation_direction": direction});
        post(&flow, "/predict", &body).await.json()
    };
    assert_eq!(scores(&long, "Left").await, scores(&end, "Right").await);
    assert_ne!(scores(&long, "Right").await, scores(&end, "Right").await);
}
