//! Which executor answers a request, and what it says if none can.

use flow_tests::TestFlow;
use serde_json::{Value, json};

use super::client::{get, post};
use super::encoder;
use crate::tiny_model::TinyModel;

async fn dimensions(flow: &TestFlow, model: &str) -> usize {
    let body = json!({"input": "a", "model": model});
    let reply = post(flow, "/v1/embeddings", &body).await.json();
    let vector = reply["data"][0]["embedding"].as_array();
    vector.unwrap_or_else(|| panic!("{reply}")).len()
}

#[tokio::test]
async fn requests_of_a_flow_with_several_encoders_go_to_the_model_that_they_name() {
    let flow = TestFlow::up(
        "with: {models: {text-embedding-3-small: short}}\n\
         executors:\n\
         - {name: whole, uses: sentence-encoder}\n\
         - {name: short, uses: sentence-encoder, uses_with: {dimensions: 64}, needs: gateway}\n\
         - {name: join, needs: [whole, short]}",
    );
    assert_eq!(dimensions(&flow, "whole").await, 384);
    assert_eq!(dimensions(&flow, "short").await, 64);
    assert_eq!(dimensions(&flow, "text-embedding-3-small").await, 64);
    let unnamed = post(&flow, "/v1/embeddings", &json!({"input": "a"})).await;
    let error = unnamed.json();
    assert_eq!(
        (unnamed.status, &error["error"]["param"]),
        (400, &json!("model")),
        "{error}"
    );
    let models = get(&flow, "/v1/models").await.json();
    let ids = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["id"]);
    let ids: Vec<&Value> = ids.collect();
    assert_eq!(
        json!(ids),
        json!(["whole", "short", "text-embedding-3-small"])
    );
}

#[tokio::test]
async fn a_flow_without_a_model_says_so_in_every_api() {
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    for (path, body, pointer) in [
        ("/v1/embeddings", json!({"input": "a"}), "/error/message"),
        ("/embed", json!({"inputs": "a"}), "/error"),
        ("/v2/embed", json!({"texts": ["a"]}), "/message"),
    ] {
        let reply = post(&flow, path, &body).await;
        let json = reply.json();
        assert_eq!(reply.status, 404, "{path} {json}");
        let message = json.pointer(pointer).and_then(Value::as_str).unwrap();
        assert!(
            message.contains("no executor of the flow reports"),
            "{path} {message}"
        );
    }
}

#[tokio::test]
async fn a_request_chooses_a_prompt_of_the_model_in_every_api() {
    let model = TinyModel::bert();
    let prompts = json!({"prompts": {"query": "c d "}});
    model.write("config_sentence_transformers.json", &prompts);
    let flow = TestFlow::up(&format!(
        "executors: [{{name: encoder, uses: sentence-encoder, uses_with: {{model: '{}'}}}}]",
        model.path().display()
    ));
    for (path, pointer, chosen, written) in [
        (
            "/embed",
            "/0",
            json!({"inputs": "a", "prompt_name": "query"}),
            json!({"inputs": "c d a"}),
        ),
        (
            "/tokenize",
            "/0",
            json!({"inputs": "a", "prompt_name": "query"}),
            json!({"inputs": "c d a"}),
        ),
        (
            "/v2/embed",
            "/embeddings/float/0",
            json!({"texts": ["a"], "input_type": "search_query"}),
            json!({"texts": ["c d a"], "input_type": "search_document"}),
        ),
        (
            "/v1/embeddings",
            "/data/0/embedding",
            json!({"input": "a", "task": "retrieval.query"}),
            json!({"input": "c d a"}),
        ),
    ] {
        let (chosen, written) = (
            post(&flow, path, &chosen).await,
            post(&flow, path, &written).await,
        );
        let (chosen, written) = (chosen.json(), written.json());
        assert!(written.pointer(pointer).is_some(), "{path} {written}");
        assert_eq!(
            chosen.pointer(pointer),
            written.pointer(pointer),
            "{path} {chosen}"
        );
    }
    let models = get(&flow, "/v1/models").await.json();
    assert_eq!(models["data"][0]["prompts"], json!(["query"]));
}

#[tokio::test]
async fn an_executor_that_makes_no_vectors_is_named() {
    let flow = TestFlow::up("with: {models: {m: echo}}\nexecutors: [{name: echo, uses: echo}]");
    let reply = post(
        &flow,
        "/v1/embeddings",
        &json!({"input": "a", "model": "m"}),
    )
    .await;
    let message = reply.json()["error"]["message"].to_string();
    assert_eq!(reply.status, 500);
    assert!(
        message.contains("executor `echo` returned a document without"),
        "{message}"
    );
}

#[tokio::test]
async fn the_deadline_of_a_request_is_that_of_its_header() {
    let flow = encoder();
    flow.expect("deadline");
    let texts = vec!["some words that take time ".repeat(50); 2000];
    let timeout = ("grpc-timeout", "20m".to_owned());
    let body = json!({"input": texts}).to_string();
    let path = (http::Method::POST, "/v1/embeddings");
    let reply = super::client::send(&flow, path, &[timeout], body).await;
    assert_eq!(reply.status, 504, "{reply:?}");
    assert_eq!(reply.json()["error"]["code"], "timeout");
}
