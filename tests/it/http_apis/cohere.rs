//! Cohere's API.

use serde_json::json;

use super::client::post;
use super::{MODEL, TEXTS, check_close, encoder, over_grpc, rows};

#[tokio::test]
async fn texts_become_vectors_by_format() {
    let flow = encoder();
    let body = json!({
        "model": MODEL, "texts": TEXTS, "input_type": "search_query",
        "embedding_types": ["float", "ubinary"],
    });
    let reply = post(&flow, "/v2/embed", &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = reply.json();
    let wanted = over_grpc(&flow, &TEXTS).await;
    check_close(&rows(&reply["embeddings"]["float"]), &wanted);
    assert_eq!(rows(&reply["embeddings"]["ubinary"])[0].len(), 48);
    assert_eq!(reply["meta"]["billed_units"]["input_tokens"], 10);
    assert_eq!(reply["texts"], json!(TEXTS));
}

#[tokio::test]
async fn an_invalid_request_is_an_error_in_coheres_format() {
    let flow = encoder();
    for (path, body, status, part) in [
        (
            "/v2/embed",
            json!({"model": "x", "texts": ["a"]}),
            404,
            "there is no model `x`",
        ),
        (
            "/v2/embed",
            json!({"model": MODEL}),
            400,
            "`texts` is missing",
        ),
        (
            "/v2/embed",
            json!({"texts": ["a"], "truncate": "MIDDLE"}),
            400,
            "`END`",
        ),
        (
            "/v2/embed",
            json!({"texts": ["a"], "output_dimension": 5}),
            400,
            "384 dimensions",
        ),
        (
            "/v2/rerank",
            json!({"query": "a"}),
            404,
            "no model for reranking",
        ),
        (
            "/v1/rerank",
            json!({"query": "a"}),
            404,
            "no model for reranking",
        ),
    ] {
        let reply = post(&flow, path, &body).await;
        let message = reply.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(reply.status, status, "{path} {message}");
        assert!(message.contains(part), "{path} {message}");
    }
}
