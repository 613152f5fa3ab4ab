//! The API for sparse vectors, text-embeddings-inference's, at a flow with an encoder of either kind.

use flow_core::{Deadline, Document, DocumentArray};
use flow_proto::Envelope;
use flow_tests::{TestFlow, request};
use serde_json::{Value, json};

use super::client::{Reply, get, post};
use crate::tiny_model::TinyModel;

/// A flow with a dense and a sparse encoder, whose options would change the replies of the API.
fn both(model: &TinyModel) -> TestFlow {
    TestFlow::up(&format!(
        "executors:\n\
         - {{name: dense, uses: sentence-encoder}}\n\
         - name: sparse\n  uses: sparse-encoder\n  uses_with: {{model: '{}', tag: words, access_paths: '@c'}}",
        model.path().display()
    ))
}

/// The vector of a text, as the executor gives it over gRPC.
async fn over_grpc(flow: &TestFlow, text: &str) -> Value {
    let documents: DocumentArray = [Document::from_text(text)].into_iter().collect();
    let client = flow_tests::client(flow).await;
    let request = Envelope {
        data: Some(documents.encode()),
        ..request("/encode", &[], &json!({"sparse__access_paths": "@r"}))
    };
    let reply = client.single(request, Deadline::NEVER).await.unwrap();
    let documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    let document = documents.into_iter().next().unwrap();
    assert!(document.embedding().is_some());
    let vector = document.tags().remove("words").unwrap();
    let [indices, values] = ["indices", "values"].map(|name| vector[name].as_array().unwrap());
    assert!(!indices.is_empty());
    let weights = indices.iter().zip(values);
    let weights = weights.map(|(index, value)| json!({"index": index, "value": narrow(value)}));
    weights.collect()
}

/// The same number as a 32-bit float.
fn narrow(value: &Value) -> f32 {
    value.as_f64().unwrap() as f32
}

fn check_error(reply: &Reply, part: &str) {
    let json = reply.json();
    assert!(json["error"].as_str().unwrap().contains(part), "{json}");
}

/// The vectors of a reply.
fn vectors(reply: &Value) -> Value {
    let vector = |vector: &Value| -> Value {
        let weights = vector.as_array().unwrap().iter();
        let weight = |it: &Value| json!({"index": it["index"], "value": narrow(&it["value"])});
        weights.map(weight).collect()
    };
    reply.as_array().unwrap().iter().map(vector).collect()
}

#[tokio::test]
async fn texts_have_the_vectors_that_they_have_over_grpc() {
    let model = TinyModel::masked_lm("bert", true);
    let flow = both(&model);
    let expected = [over_grpc(&flow, "a b").await, over_grpc(&flow, "d").await];
    let body = json!({"inputs": ["a b", "d"], "truncate": true});
    let reply = post(&flow, "/embed_sparse", &body).await;
    assert_eq!(vectors(&reply.json()), json!(expected));
    assert_eq!(reply.number("x-compute-tokens"), 4 + 3);
    assert!(reply.headers.contains_key("server-timing"));
    let one = post(&flow, "/embed_sparse", &json!({"inputs": "d"})).await;
    assert_eq!(vectors(&one.json()), json!([expected[1]]));

    let texts: Vec<&str> = ["a b", "d"].into_iter().cycle().take(150).collect();
    let many = post(&flow, "/embed_sparse", &json!({"inputs": texts}))
        .await
        .json();
    let many = vectors(&many);
    assert!((0..150).all(|place| many[place] == expected[place % 2]));
}

#[tokio::test]
async fn the_beginning_of_a_long_text_is_cut_off_if_a_request_asks_for_it() {
    let model = TinyModel::masked_lm("bert", true);
    let flow = both(&model);
    let long = ["a", "b"].repeat(8);
    let embed = async |text: &str, direction: &str| {
        let body = json!({"inputs": text, "truncation_direction": direction});
        vectors(&post(&flow, "/embed_sparse", &body).await.json())
    };
    let (whole, end) = (long.join(" "), long[2..].join(" "));
    let with_end = format!("c {end}");
    assert_eq!(embed(&with_end, "Left").await, embed(&end, "Right").await);
    assert_ne!(embed(&with_end, "Right").await, embed(&end, "Right").await);
    let refused = json!({"inputs": whole, "truncate": false});
    let refused = post(&flow, "/embed_sparse", &refused).await;
    check_error(&refused, "more than 16 tokens");
}

#[tokio::test]
async fn the_model_is_described_and_the_others_are_not_taken_for_it() {
    let model = TinyModel::masked_lm("bert", true);
    let flow = both(&model);
    let models = get(&flow, "/v1/models").await.json();
    let kinds = models["data"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|it| &it["kind"]).collect();
    assert_eq!(json!(kinds), json!(["embedding", "sparse_embedding"]));
    let info = get(&flow, "/info?model=sparse").await.json();
    assert_eq!(info["model_type"]["embedding"]["pooling"], "splade");
    let body = json!({"inputs": "a", "model": "dense"});
    let reply = post(&flow, "/embed_sparse", &body).await;
    assert_eq!(reply.status, 404);
    check_error(
        &reply,
        "is not a model for sparse embeddings, but an embedding model",
    );
    let body = json!({"inputs": "a", "prompt_name": "query"});
    let reply = post(&flow, "/embed_sparse", &body).await;
    check_error(&reply, "has no prompt `query`");
}

#[tokio::test]
async fn a_flow_with_a_sparse_encoder_alone_answers_at_the_root() {
    let model = TinyModel::masked_lm("distilbert", false);
    let flow = TestFlow::up(&format!(
        "executors: [{{name: sparse, uses: sparse-encoder, uses_with: {{model: '{}'}}}}]",
        model.path().display()
    ));
    let at = async |path| vectors(&post(&flow, path, &json!({"inputs": "a c"})).await.json());
    assert_eq!(at("/").await, at("/embed_sparse").await);
    let document = get(&flow, "/openapi.json").await.json();
    for path in ["/", "/embed_sparse"] {
        let tag = &document["paths"][path]["post"]["tags"][0];
        assert_eq!(tag, "text-embeddings-inference", "{path}");
    }
}
