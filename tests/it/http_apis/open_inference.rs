//! The Open Inference Protocol.

use http::Method;
use serde_json::{Value, json};

use super::client::{get, post, send};
use super::{MODEL, TEXTS, check_close, encoder, floats, over_grpc};

#[tokio::test]
async fn a_server_and_its_models_describe_themselves() {
    let flow = encoder();
    assert_eq!(get(&flow, "/v2").await.json()["name"], "flow");
    assert_eq!(get(&flow, "/v2/health/live").await.json()["live"], true);
    assert_eq!(get(&flow, "/v2/health/ready").await.json()["ready"], true);
    let model = get(&flow, &format!("/v2/models/{MODEL}")).await.json();
    assert_eq!(model["outputs"][0]["shape"], json!([-1, 384]));
    assert_eq!(get(&flow, "/v2/models/encoder/ready").await.status, 200);
    let unknown = get(&flow, "/v2/models/x/ready").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"].is_string());
}

#[tokio::test]
async fn a_tensor_of_texts_becomes_a_tensor_of_vectors() {
    let flow = encoder();
    let wanted = over_grpc(&flow, &TEXTS).await;
    let input = json!({"name": "text", "datatype": "BYTES", "shape": [2], "data": TEXTS});
    let path = format!("/v2/models/{MODEL}/infer");
    let reply = post(&flow, &path, &json!({"id": "7", "inputs": [input]}))
        .await
        .json();
    let output = &reply["outputs"][0];
    assert_eq!(
        (&reply["id"], &output["shape"]),
        (&json!("7"), &json!([2, 384]))
    );
    check_close(&[floats(&output["data"])], &[wanted.concat()]);

    let binary: Vec<u8> = TEXTS.iter().flat_map(|text| element(text)).collect();
    let size = json!({"binary_data_size": binary.len()});
    let input = json!({"name": "text", "datatype": "BYTES", "shape": [2], "parameters": size});
    let all = json!({"inputs": [input], "parameters": {"binary_data_output": true}}).to_string();
    let len = ("inference-header-content-length", all.len().to_string());
    let body = [all.into_bytes(), binary].concat();
    let reply = send(&flow, (Method::POST, &path), &[len], body).await;
    let json_len = usize::try_from(reply.number("inference-header-content-length")).unwrap();
    let head: Value = serde_json::from_slice(&reply.body[..json_len]).unwrap();
    assert_eq!(head["outputs"][0]["datatype"], "FP32");
    let bytes: Vec<u8> = wanted
        .concat()
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .collect();
    assert_eq!(reply.body[json_len..], bytes);
}

/// An element of a tensor of bytes.
fn element(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).unwrap();
    [&len.to_le_bytes()[..], text.as_bytes()].concat()
}
