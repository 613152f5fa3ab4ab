//! The APIs for reranking: text-embeddings-inference's, Cohere's and Jina AI's, at a flow with an encoder and a reranker.

use flow_core::{Deadline, Document, DocumentArray};
use flow_proto::Envelope;
use flow_tests::{TestFlow, request};
use serde_json::{Value, json};

use super::client::{get, post};
use crate::tiny_model::TinyModel;

const QUERY: &str = "a b";
const DOCUMENTS: [&str; 4] = ["a", "b c", "d d d", "c"];

/// A flow with an encoder and a reranker that has an alias, and keeps one match unless a request asks for more.
fn reranker(model: &TinyModel) -> TestFlow {
    TestFlow::up(&format!(
        "with: {{models: {{rerank-v3.5: ranker}}}}\n\
         executors:\n\
         - {{name: encoder, uses: sentence-encoder}}\n\
         - {{name: ranker, uses: reranker, uses_with: {{model: '{}', top_k: 1}}}}",
        model.path().display()
    ))
}

/// The places of the documents, the best first, and their scores, as the executor gives them over gRPC.
async fn over_grpc(flow: &TestFlow) -> Vec<(usize, f32)> {
    let mut query = Document::from_text(QUERY);
    let matches = DOCUMENTS.iter().map(|text| Document::from_text(text));
    query.set_matches(matches.collect());
    let documents: DocumentArray = [query].into_iter().collect();
    let client = flow_tests::client(flow).await;
    let parameters = json!({"top_k": DOCUMENTS.len()});
    let request = Envelope {
        data: Some(documents.encode()),
        ..request("/rank", &[], &parameters)
    };
    let reply = client.single(request, Deadline::NEVER).await.unwrap();
    let documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    let mut query = documents.into_iter().next().unwrap();
    let place = |text: &str| DOCUMENTS.iter().position(|it| *it == text).unwrap();
    let matches = query.matches_mut().unwrap().iter();
    matches
        .map(|found| (place(&found.text()), found.score("relevance").unwrap()))
        .collect()
}

/// The places and scores of a list of results.
fn ranks(results: &Value, score: &str) -> Vec<(usize, f32)> {
    let results = results.as_array().unwrap_or_else(|| panic!("{results}"));
    let rank = |it: &Value| {
        let place = usize::try_from(it["index"].as_u64().unwrap()).unwrap();
        (place, it[score].as_f64().unwrap() as f32)
    };
    results.iter().map(rank).collect()
}

#[tokio::test]
async fn texts_are_ordered_as_over_grpc_by_every_api() {
    let model = TinyModel::classifier("bert", 1);
    let flow = reranker(&model);
    let expected = over_grpc(&flow).await;
    let of_tei = json!({"query": QUERY, "texts": DOCUMENTS, "return_text": true});
    let reply = post(&flow, "/rerank", &of_tei).await;
    let json = reply.json();
    assert_eq!(ranks(&json, "score"), expected);
    assert_eq!(json[0]["text"], DOCUMENTS[expected[0].0]);
    assert!(reply.headers.contains_key("server-timing"));
    assert_eq!(reply.number("x-compute-characters"), 13);
    assert_eq!(reply.number("x-compute-tokens"), 4 * 5 + 7);
    let body = json!({"query": QUERY, "documents": DOCUMENTS, "top_n": 2, "model": "rerank-v3.5"});
    for path in ["/v2/rerank", "/v1/rerank"] {
        let json = post(&flow, path, &body).await.json();
        let found = ranks(&json["results"], "relevance_score");
        assert_eq!(found, expected[..2], "{path}");
        assert_eq!(json["results"][0].get("document"), None);
        assert_eq!(json["meta"]["billed_units"]["search_units"], 1);
    }
    let body = json!({"query": QUERY, "documents": [{"text": "c"}], "return_documents": true});
    let json = post(&flow, "/v1/rerank", &body).await.json();
    assert_eq!(json["results"][0]["document"]["text"], "c");
    assert_eq!(json["usage"]["total_tokens"], 6);
}

#[tokio::test]
async fn a_call_of_many_texts_is_ordered_as_a_whole() {
    let model = TinyModel::classifier("bert", 1);
    let flow = reranker(&model);
    let texts: Vec<&str> = DOCUMENTS.into_iter().cycle().take(150).collect();
    let body = json!({"query": QUERY, "texts": texts, "raw_scores": true});
    let found = ranks(&post(&flow, "/rerank", &body).await.json(), "score");
    assert_eq!(found.len(), 150);
    let best = over_grpc(&flow).await[0].0;
    // The best text comes first wherever it is, in the order of its places.
    let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
    let expected: Vec<usize> = (0..150).filter(|place| place % 4 == best).collect();
    assert_eq!(places[..expected.len()], expected);
}

#[tokio::test]
async fn each_route_takes_the_models_of_its_kind() {
    let model = TinyModel::classifier("bert", 1);
    let flow = reranker(&model);
    let embedded = post(&flow, "/v1/embeddings", &json!({"input": "a"})).await;
    assert_eq!(embedded.status, 200, "{embedded:?}");
    let models = get(&flow, "/v1/models").await.json();
    let kinds = models["data"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|it| &it["kind"]).collect();
    assert_eq!(json!(kinds), json!(["embedding", "reranker", "reranker"]));
    let info = get(&flow, "/info?model=ranker").await.json();
    assert!(info["model_type"]["reranker"].is_object(), "{info}");
    assert_eq!(info["max_input_length"], 16);
    let body = json!({"input": "a", "model": "ranker"});
    let refused = post(&flow, "/v1/embeddings", &body).await;
    let message = refused.json()["error"]["message"].to_string();
    assert_eq!(refused.status, 404);
    assert!(
        message.contains("is not an embedding model, but a reranker"),
        "{message}"
    );
}

#[tokio::test]
async fn an_invalid_request_is_an_error_in_the_format_of_its_api() {
    let model = TinyModel::classifier("bert", 1);
    let flow = reranker(&model);
    let long = "d ".repeat(50);
    let too_long = json!({"query": "a", "texts": [long], "truncate": false});
    for (body, status, part) in [
        (json!({"texts": ["a"]}), 422, "`query` is missing"),
        (json!({"query": "a", "texts": []}), 400, "`texts` is empty"),
        (
            json!({"query": "", "texts": ["a"]}),
            400,
            "`query` is empty",
        ),
        (
            json!({"query": "a", "texts": ["b", ""]}),
            400,
            "text 1 of `texts` is empty",
        ),
        (too_long, 413, "more than 16 tokens"),
        (
            json!({"query": "a", "texts": ["b"], "model": "encoder"}),
            404,
            "is not a reranker",
        ),
    ] {
        let reply = post(&flow, "/rerank", &body).await;
        let message = reply.json()["error"].to_string();
        assert_eq!(reply.status, status, "{body} {message}");
        assert!(message.contains(part), "{body} {message}");
    }
    let body = json!({"query": "a", "documents": ["b"], "top_n": 0});
    let reply = post(&flow, "/v2/rerank", &body).await;
    let message = reply.json()["message"].to_string();
    assert_eq!(reply.status, 400);
    assert!(message.contains("`top_n`"), "{message}");
}

#[tokio::test]
async fn the_client_of_cohere_gets_the_order() {
    let model = TinyModel::classifier("bert", 1);
    let flow = reranker(&model);
    let arguments = [
        flow.port().to_string(),
        json!([QUERY, DOCUMENTS]).to_string(),
    ];
    let Some(got) = flow_tests::http_clients("rerank_clients.py", &arguments) else {
        return;
    };
    let expected = over_grpc(&flow).await;
    assert_eq!(ranks(&got["first"], "relevance_score"), expected);
    assert_eq!(ranks(&got["second"], "relevance_score"), expected[..2]);
    let unknown = got["unknown"].as_str().unwrap();
    assert!(
        unknown.contains("there is no model `no-such-model`"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_request_chooses_the_side_at_which_a_long_text_is_cut() {
    let model = TinyModel::classifier("bert", 1);
    let flow = reranker(&model);
    // The model reads 16 tokens, three of which are special, and the query has two.
    let end = ["d", "c"].repeat(6)[..11].join(" ");
    let long = format!("a b {end}");
    let score = async |text: &str, direction: &str| {
        let body = json!({"query": QUERY, "texts": [text], "truncation_direction": direction});
        ranks(&post(&flow, "/rerank", &body).await.json(), "score")
    };
    assert_eq!(score(&long, "Left").await, score(&end, "Right").await);
    assert_ne!(score(&long, "Right").await, score(&end, "Right").await);
}
