//! OpenAI's API, with Jina AI's fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_core::EmbeddingType;
use flow_tests::TestFlow;
use serde_json::{Value, json};

use super::client::{get, post};
use super::{MODEL, TEXTS, check_close, encoder, floats, over_grpc};

fn embeddings(reply: &Value) -> Vec<Vec<f32>> {
    let data = reply["data"].as_array().unwrap().iter();
    data.map(|it| floats(&it["embedding"])).collect()
}

#[tokio::test]
async fn embeddings_are_those_of_grpc_and_usage_counts_every_token() {
    let flow = encoder();
    let wanted = over_grpc(&flow, &TEXTS).await;
    let body = json!({"model": MODEL, "input": TEXTS});
    let reply = post(&flow, "/v1/embeddings", &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = reply.json();
    check_close(&embeddings(&reply), &wanted);
    assert_eq!(
        (reply["object"].as_str(), reply["model"].as_str()),
        (Some("list"), Some(MODEL))
    );
    // With [CLS] and [SEP]: a text; another , longer text.
    assert_eq!(
        reply["usage"],
        json!({"prompt_tokens": 10, "total_tokens": 10})
    );
    assert_eq!(reply["data"][1]["index"], 1);

    let body = json!({"input": TEXTS, "encoding_format": "base64"});
    let reply = post(&flow, "/v1/embeddings", &body).await.json();
    for (entry, wanted) in reply["data"].as_array().unwrap().iter().zip(&wanted) {
        let bytes = STANDARD
            .decode(entry["embedding"].as_str().unwrap())
            .unwrap();
        let expected: Vec<u8> = wanted.iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(bytes, expected);
    }
}

#[tokio::test]
async fn a_call_of_several_pieces_keeps_its_order_and_its_tokens() {
    let flow = encoder();
    let texts: Vec<String> = (0..150).map(|number| format!("text {number}")).collect();
    let reply = post(&flow, "/v1/embeddings", &json!({"input": texts}))
        .await
        .json();
    let got = embeddings(&reply);
    assert_eq!(got.len(), texts.len());
    let some = [0, 63, 64, 149];
    let of: Vec<&str> = some.iter().map(|&at| texts[at].as_str()).collect();
    let wanted = over_grpc(&flow, &of).await;
    let got: Vec<Vec<f32>> = some.iter().map(|&at| got[at].clone()).collect();
    check_close(&got, &wanted);
    let tokens = post(&flow, "/tokenize", &json!({"inputs": texts}))
        .await
        .json();
    let tokens = tokens.as_array().unwrap().iter();
    let tokens: usize = tokens.map(|it| it.as_array().unwrap().len()).sum();
    assert_eq!(reply["usage"]["prompt_tokens"], tokens);
}

#[tokio::test]
async fn models_are_listed_with_what_the_executor_reports() {
    let flow = encoder();
    let list = get(&flow, "/v1/models").await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
    let one = get(&flow, &format!("/v1/models/{MODEL}")).await.json();
    assert_eq!(list["data"][0], one);
    let about = ["id", "object", "dimensions", "max_model_len", "pooling"];
    let about: Vec<&Value> = about.iter().map(|field| &one[field]).collect();
    assert_eq!(json!(about), json!([MODEL, "model", 384, 256, "mean"]));
}

#[tokio::test]
async fn an_invalid_request_is_an_error_in_openais_format() {
    let flow = encoder();
    let many = vec!["a"; 250_001];
    for (body, status, param, part) in [
        (
            json!({"input": "a", "model": "x"}),
            404,
            json!("model"),
            "all-MiniLM-L6-v2",
        ),
        (json!({"model": MODEL}), 400, json!("input"), "missing"),
        (json!({"input": []}), 400, json!("input"), "empty"),
        (json!({"input": ["a", ""]}), 400, json!("input"), "text 1"),
        (
            json!({"input": [[1, 99_999]]}),
            400,
            json!("input"),
            "no token with the id 99999",
        ),
        (
            json!({"input": many}),
            400,
            json!("input"),
            "at most 250000",
        ),
        (
            json!({"input": "a", "dimensions": 64}),
            400,
            json!("dimensions"),
            "384 dimensions",
        ),
        (
            json!({"input": "a", "late_chunking": true}),
            400,
            json!("late_chunking"),
            "trained",
        ),
        (
            json!({"input": "a", "inputs": "b"}),
            400,
            json!(null),
            "`input`",
        ),
        (json!([]), 400, json!(null), "JSON object"),
    ] {
        let reply = post(&flow, "/v1/embeddings", &body).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["param"]), (status, &param), "{error}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    let unknown = get(&flow, "/v1/models/x").await;
    assert_eq!(unknown.json()["error"]["code"], "model_not_found");
    let route = post(&flow, "/v1/chat/completions", &json!({})).await;
    assert_eq!(
        (route.status, &route.json()["error"]["code"]),
        (404, &json!("unknown_url"))
    );
    assert_eq!(get(&flow, "/v1/embeddings").await.status, 405);
}

#[tokio::test]
async fn a_text_that_is_too_long_is_truncated_unless_the_request_forbids_it() {
    let flow = encoder();
    let long = "word ".repeat(400);
    let reply = post(&flow, "/v1/embeddings", &json!({"input": long}))
        .await
        .json();
    assert_eq!(reply["usage"]["prompt_tokens"], 256);
    let body = json!({"input": ["short", long], "truncate": false});
    let reply = post(&flow, "/v1/embeddings", &body).await;
    assert_eq!(reply.status, 400);
    let message = reply.json()["error"]["message"].to_string();
    assert!(
        message.contains("more than 256 tokens, the most that the model reads: `word word"),
        "{message}"
    );
}

#[tokio::test]
async fn vectors_come_in_small_formats_too() {
    let flow = encoder();
    for (format, len) in [
        ("int8", 384),
        ("uint8", 384),
        ("binary", 48),
        ("ubinary", 48),
    ] {
        let body = json!({"input": "a", "embedding_type": format});
        let reply = post(&flow, "/v1/embeddings", &body).await.json();
        let vector = reply["data"][0]["embedding"].as_array().unwrap();
        assert_eq!(vector.len(), len, "{format}");
        assert!(vector.iter().all(Value::is_i64), "{format}");
    }
}

#[tokio::test]
async fn every_format_is_there_whatever_type_of_vectors_the_flow_sends() {
    let floats = encoder();
    let wanted = over_grpc(&floats, &["a"]).await;
    let small = TestFlow::up(
        "executors: [{name: encoder, uses: sentence-encoder, uses_with: {embedding_type: binary}}]",
    );
    let reply = post(&small, "/v1/embeddings", &json!({"input": "a"})).await;
    check_close(&embeddings(&reply.json()), &wanted);
    let int8 = json!({"input": "a", "embedding_type": "int8"});
    let reply = post(&small, "/v1/embeddings", &int8).await;
    let expected = EmbeddingType::Int8.encode(&wanted[0]).to_i16().unwrap();
    assert_eq!(reply.json()["data"][0]["embedding"], json!(expected));
}

#[tokio::test]
async fn texts_are_encoded_though_the_flow_encodes_only_what_is_nested_in_documents() {
    let wanted = over_grpc(&encoder(), &["a"]).await;
    let chunks = TestFlow::up(
        "executors: [{name: encoder, uses: sentence-encoder, uses_with: {access_paths: '@c'}}]",
    );
    let reply = post(&chunks, "/v1/embeddings", &json!({"input": "a"})).await;
    check_close(&embeddings(&reply.json()), &wanted);
    let reply = post(&chunks, "/embed", &json!({"inputs": "a"})).await;
    check_close(&[floats(&reply.json()[0])], &wanted);
}

#[tokio::test]
async fn a_reply_says_how_long_each_stage_took() {
    let flow = encoder();
    let input = json!({"name": "text", "datatype": "BYTES", "shape": [2], "data": TEXTS});
    for (path, body) in [
        ("/v1/embeddings", json!({"input": TEXTS})),
        ("/embed", json!({"inputs": TEXTS})),
        ("/v2/embed", json!({"texts": TEXTS})),
        ("/v2/models/encoder/infer", json!({"inputs": [input]})),
    ] {
        let reply = post(&flow, path, &body).await;
        let timing = reply.headers["server-timing"].to_str().unwrap();
        let entries = timing.split(", ").map(|entry| {
            let (name, ms) = entry.split_once(";dur=").unwrap();
            (name, ms.parse::<f64>().unwrap())
        });
        let (names, times): (Vec<&str>, Vec<f64>) = entries.unzip();
        let expected = ["gateway", "queue", "tokenize", "compute"];
        assert_eq!(names, expected, "{path}: {timing}");
        assert!(times[0] >= times[1..].iter().sum(), "{path}: {timing}");
    }
}

#[tokio::test]
async fn a_reply_says_how_many_of_its_texts_had_a_vector_already() {
    let plain = encoder();
    let cached = TestFlow::up(
        "executors: [{name: encoder, uses: sentence-encoder, uses_with: {cache: true}}]",
    );
    let count = async |flow: &TestFlow, path: &str, body: Value| {
        let reply = post(flow, path, &body).await;
        assert_eq!(reply.status, 200, "{path}");
        let header = reply.headers.get("x-flow-cached-texts");
        header.map(|it| it.to_str().unwrap().to_owned())
    };
    for (path, field) in [
        ("/v1/embeddings", "input"),
        ("/embed", "inputs"),
        ("/v2/embed", "texts"),
    ] {
        let [one, two] = ["one", "two"].map(|text| format!("{text} at {path}"));
        let found = count(&plain, path, json!({ field: [&one, &one] })).await;
        assert_eq!(found, None, "{path}");
        for (texts, expected) in [
            ([&one, &one], "1"),
            ([&two, &one], "1"),
            ([&two, &one], "2"),
        ] {
            let found = count(&cached, path, json!({ field: texts })).await;
            assert_eq!(found.as_deref(), Some(expected), "{path} {texts:?}");
        }
    }
}

/// The ids that the model's own tokenizer makes of texts.
async fn own_ids(flow: &TestFlow, texts: &[&str]) -> Vec<Vec<u64>> {
    let reply = post(flow, "/tokenize", &json!({"inputs": texts}))
        .await
        .json();
    let ids = |tokens: &Value| {
        let tokens = tokens.as_array().unwrap().iter();
        tokens.map(|token| token["id"].as_u64().unwrap()).collect()
    };
    reply.as_array().unwrap().iter().map(ids).collect()
}

#[tokio::test]
async fn token_ids_of_the_model_s_vocabulary_stand_for_texts() {
    let flow = encoder();
    let wanted = over_grpc(&flow, &TEXTS).await;
    let ids = own_ids(&flow, &TEXTS).await;
    let body = json!({"model": MODEL, "input": ids});
    let reply = post(&flow, "/v1/embeddings", &body).await.json();
    check_close(&embeddings(&reply), &wanted);
    assert_eq!(reply["usage"]["prompt_tokens"], 10);
    let body = json!({"input": &ids[1]});
    let reply = post(&flow, "/v1/embeddings", &body).await.json();
    check_close(&embeddings(&reply), &wanted[1..2]);
    let reply = post(&flow, "/embed", &json!({"inputs": ids})).await.json();
    let vectors: Vec<Vec<f32>> = reply.as_array().unwrap().iter().map(floats).collect();
    check_close(&vectors, &wanted);
    let many = vec![5; (1 << 17) + 1];
    for (input, part) in [
        (json!(many), "131073 token ids, and 131072 are allowed"),
        (json!([[5], []]), "a list of token ids in `input` is empty"),
        (json!(vec![[5]; 250_001]), "at most 250000 are allowed"),
    ] {
        let reply = post(&flow, "/v1/embeddings", &json!({ "input": input })).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (400, &json!("input")),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    let reply = post(&flow, "/v1/embeddings", &json!({"input": [[5, 99_999]]})).await;
    let said = reply.json()["error"]["message"].to_string();
    assert_eq!(reply.status, 400, "{said}");
    assert!(said.contains("no token with the id 99999"), "{said}");
}

#[tokio::test]
async fn token_ids_are_those_of_cl100k_if_the_model_has_a_name_of_openai() {
    let flow = TestFlow::up(
        "with: {models: {text-embedding-3-small: encoder}}\n\
        executors: [{name: encoder, uses: sentence-encoder}]",
    );
    let name = "text-embedding-3-small";
    let wanted = over_grpc(&flow, &["hello world", "a"]).await;
    // Made by OpenAI's tiktoken.
    let body = json!({"model": name, "input": [[15339, 1917], [64]]});
    let reply = post(&flow, "/v1/embeddings", &body).await.json();
    check_close(&embeddings(&reply), &wanted);
    let wrong = json!({"model": name, "input": [100_256]});
    let reply = post(&flow, "/v1/embeddings", &wrong).await;
    let said = reply.json()["error"]["message"].to_string();
    assert_eq!(reply.status, 400, "{said}");
    assert!(
        said.contains("the token id 100256, which the vocabulary `cl100k_base`"),
        "{said}"
    );
}
