//! The API of text-embeddings-inference.

use serde_json::{Value, json};

use flow_tests::TestFlow;

use super::client::{get, post};
use super::{MODEL, TEXTS, check_close, encoder, over_grpc, rows};

#[tokio::test]
async fn texts_become_vectors_with_headers_that_say_what_it_took() {
    let flow = encoder();
    let wanted = over_grpc(&flow, &TEXTS).await;
    for path in ["/embed", "/"] {
        let reply = post(&flow, path, &json!({"inputs": TEXTS})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        check_close(&rows(&reply.json()), &wanted);
        assert_eq!(reply.number("x-compute-tokens"), 10);
        assert_eq!(reply.number("x-compute-characters"), 26);
        assert!(reply.number("x-total-time") >= reply.number("x-compute-time"));
        assert_eq!(reply.headers["x-compute-type"], "cpu");
        let stages = ["x-tokenization-time", "x-queue-time", "x-inference-time"];
        let stages: u64 = stages.map(|it| reply.number(it)).iter().sum();
        assert!(stages <= reply.number("x-total-time"), "{reply:?}");
    }
    let one = post(&flow, "/embed", &json!({"inputs": TEXTS[0]})).await;
    check_close(&rows(&one.json()), &wanted[..1]);
}

#[tokio::test]
async fn normalize_false_gives_the_models_own_vectors() {
    let flow = encoder();
    let body = json!({"inputs": TEXTS[0], "normalize": false});
    let raw = rows(&post(&flow, "/embed", &body).await.json()).remove(0);
    let length = |vector: &[f32]| vector.iter().map(|it| it * it).sum::<f32>().sqrt();
    assert!((length(&raw) - 1.0).abs() > 0.1, "{}", length(&raw));
    let normal: Vec<f32> = raw.iter().map(|it| it / length(&raw)).collect();
    check_close(&[normal], &over_grpc(&flow, &TEXTS[..1]).await);
}

#[tokio::test]
async fn similarity_is_the_cosine_with_each_sentence() {
    let flow = encoder();
    let inputs = json!({"source_sentence": TEXTS[0], "sentences": TEXTS});
    let reply = post(&flow, "/similarity", &json!({"inputs": inputs}))
        .await
        .json();
    let vectors = over_grpc(&flow, &TEXTS).await;
    let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
    check_close(&[super::floats(&reply)], &[vec![1.0, cosine]]);
}

#[tokio::test]
async fn texts_become_tokens_and_tokens_texts() {
    let flow = encoder();
    let reply = post(&flow, "/tokenize", &json!({"inputs": ["A text"]}))
        .await
        .json();
    let expected = json!([[
        {"id": 101, "text": "[CLS]", "special": true, "start": null, "stop": null},
        {"id": 1037, "text": "a", "special": false, "start": 0, "stop": 1},
        {"id": 3793, "text": "text", "special": false, "start": 2, "stop": 6},
        {"id": 102, "text": "[SEP]", "special": true, "start": null, "stop": null},
    ]]);
    assert_eq!(reply, expected);
    let plain = json!({"inputs": "A text", "add_special_tokens": false});
    let plain = post(&flow, "/tokenize", &plain).await.json();
    assert_eq!(plain[0].as_array().unwrap().len(), 2);
    let ids = json!({"ids": [101, 1037, 3793, 102]});
    assert_eq!(post(&flow, "/decode", &ids).await.json(), json!(["a text"]));
    let special = json!({"ids": [[101, 1037], [102]], "skip_special_tokens": false});
    let texts = post(&flow, "/decode", &special).await.json();
    assert_eq!(texts, json!(["[CLS] a", "[SEP]"]));
}

#[tokio::test]
async fn info_reports_the_model_and_the_limits() {
    let flow = encoder();
    let info = get(&flow, "/info").await.json();
    let fields = [
        "model_id",
        "model_dtype",
        "max_input_length",
        "max_client_batch_size",
        "auto_truncate",
    ];
    let known: Vec<&Value> = fields.iter().map(|field| &info[field]).collect();
    assert_eq!(json!(known), json!([MODEL, "float32", 256, 250_000, true]));
    assert_eq!(
        info["model_type"],
        json!({"embedding": {"pooling": "mean"}})
    );
    for path in ["/health", "/ping"] {
        assert_eq!(get(&flow, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn an_invalid_request_is_an_error_in_teis_format() {
    let flow = encoder();
    let long = "word ".repeat(400);
    let up = json!({"inputs": "a", "truncation_direction": "Up"});
    let prompt = json!({"inputs": "a", "prompt_name": "q"});
    let too_long = json!({"inputs": long, "truncate": false});
    let invalid = "Validation";
    for (path, body, status, kind, part) in [
        (
            "/embed",
            json!({"inputs": []}),
            400,
            "Empty",
            "`inputs` is empty",
        ),
        (
            "/embed_all",
            json!({"inputs": [1]}),
            422,
            invalid,
            "token ids",
        ),
        ("/embed", up, 422, invalid, "`Left`"),
        ("/embed", prompt.clone(), 422, invalid, "no prompt `q`"),
        ("/embed_all", prompt, 422, invalid, "no prompt `q`"),
        ("/embed", too_long.clone(), 413, invalid, "256 tokens"),
        ("/embed_all", too_long, 413, invalid, "256 tokens"),
        ("/decode", json!({"ids": ["a"]}), 422, invalid, "token ids"),
    ] {
        check_error(&flow, (path, &body), (status, kind), part).await;
    }
}

#[tokio::test]
async fn the_beginning_of_a_long_text_is_cut_off_if_a_request_asks_for_it() {
    let flow = encoder();
    let vectors = async |path: &str, text: &str, direction: &str| {
        let body = json!({"inputs": text, "truncation_direction": direction});
        post(&flow, path, &body).await.json()
    };
    // Each word is a token, and the model reads 254 of them with two special ones.
    let words = ["one", "two", "three"].repeat(90);
    let (text, beginning, end) = (
        words.join(" "),
        words[..254].join(" "),
        words[270 - 254..].join(" "),
    );
    for path in ["/embed", "/embed_all"] {
        let left = vectors(path, &text, "Left").await;
        assert_eq!(left, vectors(path, &end, "Right").await, "{path}");
        let right = vectors(path, &text, "Right").await;
        assert_eq!(right, vectors(path, &beginning, "Right").await, "{path}");
        assert_ne!(left, right, "{path}");
    }
    let embed = async |text: &str, truncate: &str| {
        let body = json!({"texts": [text], "truncate": truncate});
        post(&flow, "/v2/embed", &body).await.json()["embeddings"].clone()
    };
    assert_eq!(embed(&text, "START").await, embed(&end, "END").await);
}

#[tokio::test]
async fn the_tokens_of_texts_have_vectors() {
    let flow = encoder();
    let texts = ["hello world", "hello"];
    let body = json!({"inputs": texts});
    let reply = post(&flow, "/embed_all", &body).await;
    let all = reply.json();
    let raw = json!({"inputs": texts, "normalize": false});
    let embedded = post(&flow, "/embed", &raw).await.json();
    for (text, tokens) in [(0, 4), (1, 3)] {
        let rows = all[text].as_array().unwrap();
        assert_eq!(rows.len(), tokens);
        // The model takes the mean of the tokens.
        for value in 0..384 {
            let values = rows.iter().map(|row| row[value].as_f64().unwrap());
            let mean = values.sum::<f64>() / tokens as f64;
            let expected = embedded[text][value].as_f64().unwrap();
            assert!((mean - expected).abs() < 1e-5, "{mean} {expected}");
        }
    }
    assert_eq!(reply.number("x-compute-tokens"), 7);
    let many = vec!["word ".repeat(300); 200];
    let too_many = (413, "Validation");
    let part = "more than 16777216 values";
    check_error(
        &flow,
        ("/embed_all", &json!({"inputs": many})),
        too_many,
        part,
    )
    .await;
}

#[tokio::test]
async fn a_route_for_another_kind_of_model_names_the_models_that_there_are() {
    let flow = encoder();
    let rerank = json!({"query": "a", "texts": ["b"]});
    let inputs = json!({"inputs": "a"});
    for (path, body) in [
        ("/rerank", &rerank),
        ("/predict", &inputs),
        ("/embed_sparse", &inputs),
    ] {
        check_error(&flow, (path, body), (404, "Backend"), MODEL).await;
    }
}

async fn check_error(
    flow: &TestFlow,
    (path, body): (&str, &Value),
    error: (u16, &str),
    part: &str,
) {
    let reply = post(flow, path, body).await;
    let json = reply.json();
    let found = (reply.status, json["error_type"].as_str().unwrap());
    assert_eq!(found, error, "{path} {json}");
    let text = json["error"].as_str().unwrap();
    assert!(text.contains(part), "{path} {json}");
}
