//! The real Python clients: `openai`, `langchain-openai`, `llama-index`, `cohere`, `huggingface_hub`, `tritonclient` and
//! `websockets`.
//!
//! A Python takes seconds to start, so `peers/http_clients.py` runs all its cases once.

use serde_json::{Value, json};

use super::{MODEL, TEXTS, check_close, encoder, floats, over_grpc, rows};

#[tokio::test]
async fn real_clients_get_the_vectors_of_grpc_and_understand_errors() {
    let flow = encoder();
    let arguments = [flow.port().to_string(), MODEL.to_owned()];
    let Some(got) = flow_tests::http_clients("http_clients.py", &arguments) else {
        return;
    };
    let wanted = over_grpc(&flow, &TEXTS).await;
    for case in [
        "openai_float",
        "openai_token_ids",
        "langchain",
        "llama_index",
        "hugging_face",
        "triton_json",
        "triton_binary",
        "triton_grpc",
        "triton_grpc_typed",
        "triton_grpc_stream",
    ] {
        check_close(&rows(&got[case]), &wanted);
    }
    for case in ["openai_base64", "cohere_floats"] {
        check_close(&rows(&got[case]["vectors"]), &wanted);
        assert_eq!(got[case]["tokens"].as_f64(), Some(10.0), "{case}");
    }
    let socket = &got["websockets_json"];
    check_close(&rows(&socket["vectors"]), &wanted);
    assert_eq!(socket["code"], 1000);
    // The vectors came compressed.
    assert_eq!(socket["extensions"], json!(["permessage-deflate"]));
    assert_eq!(got["openai_models"], json!({"ids": [MODEL], "one": MODEL}));
    assert_eq!(
        got["openai_unknown_model"],
        json!({"code": "model_not_found", "param": "model"})
    );
    assert_eq!(got["openai_bad_request"]["param"], "input");
    assert!(text(&got["openai_bad_request"]["message"]).contains("no token with the id 99999"));
    assert!(text(&got["cohere_rerank"]).contains("no model for reranking"));
    let statuses: Vec<&Value> = (0..2).map(|at| &got["triton_grpc_errors"][at][0]).collect();
    assert_eq!(
        json!(statuses),
        json!(["StatusCode.NOT_FOUND", "StatusCode.INVALID_ARGUMENT"])
    );
    assert!(text(&got["triton_grpc_errors"][0][1]).contains("there is no model `no-such-model`"));
    assert!((floats(&got["hugging_face_similarity"])[0] - 1.0).abs() < 1e-5);
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is not a text"))
}
