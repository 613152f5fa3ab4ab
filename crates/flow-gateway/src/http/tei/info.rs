//! `GET /info`: the model, and the limits of a request.

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use flow_core::ModelKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::api_error::ApiError;
use super::super::json_request::json_reply;
use super::super::model_call::{inputs_max, tokens_max};
use super::super::models::{ServedModel, ServedModels};
use super::super::state::HttpState;
use super::errors::failed;

/// `?model=` chooses one of several models.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chosen {
    model: Option<String>,
}

pub(super) async fn info(State(state): State<HttpState>, Query(chosen): Query<Chosen>) -> Response {
    let reply = answer(&state, chosen.model.as_deref()).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, name: Option<&str>) -> Result<Response, ApiError> {
    let snapshot = state.service.snapshot();
    let models = ServedModels::of(&snapshot).await;
    let model = models.find_any(name)?;
    let mut body = described(model);
    body["max_concurrent_requests"] = json!(snapshot.plan.gateway.in_flight_max);
    body["max_client_batch_size"] = json!(inputs_max(&state.service));
    body["max_client_tokens"] = json!(tokens_max(&state.service));
    body["max_request_bytes"] = json!(state.limits.messages.message_len_max);
    body["version"] = json!(env!("CARGO_PKG_VERSION"));
    json_reply(state, 0, HeaderMap::new(), body).await
}

/// What is known of the model. What its executor does not say is null.
fn described(model: &ServedModel) -> Value {
    let info = model.info.as_ref();
    json!({
        "model_id": info.map_or(&model.id, |info| &info.name),
        "model_sha": info.and_then(|info| info.revision.as_deref()),
        "model_dtype": info.map(|info| dtype(&info.precision)),
        "model_type": model_type(model),
        "served_by": model.executor,
        "dimensions": info.map(|info| info.dimensions).filter(|it| *it > 0),
        "max_input_length": info.map(|info| info.max_length),
        "max_batch_tokens": info.map(|info| info.batch_tokens),
        "max_batch_requests": info.map(|info| info.batch_texts),
        "auto_truncate": true,
        "sha": null,
        "docker_label": null,
    })
}

/// The kind of the model, as TEI describes it.
fn model_type(model: &ServedModel) -> Value {
    let pooling = model.info.as_ref().map(|info| info.pooling.as_str());
    match model.kind() {
        ModelKind::Embedding | ModelKind::SparseEmbedding | ModelKind::Other => {
            json!({ "embedding": { "pooling": pooling } })
        }
        ModelKind::Reranker => json!({ "reranker": labels(&["LABEL_0".to_owned()]) }),
        ModelKind::Classifier => {
            let info = model.info.as_ref();
            json!({ "classifier": labels(info.map_or(&[], |info| &info.labels)) })
        }
    }
}

/// The labels by their indices, and the reverse.
fn labels(labels: &[String]) -> Value {
    let by_index: Map<String, Value> = labels
        .iter()
        .enumerate()
        .map(|(index, label)| (index.to_string(), label.as_str().into()))
        .collect();
    let by_label: Map<String, Value> = labels
        .iter()
        .enumerate()
        .map(|(index, label)| (label.clone(), index.into()))
        .collect();
    json!({ "id2label": by_index, "label2id": by_label })
}

/// The name of a precision in TEI and PyTorch.
fn dtype(precision: &str) -> &str {
    match precision {
        "f32" => "float32",
        "f16" => "float16",
        "bf16" => "bfloat16",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{DocArrayVersion, ModelInfo};

    use super::*;

    #[test]
    fn a_model_is_described_as_far_as_its_executor_says() {
        let mut model = ServedModel {
            id: "alias".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info: None,
            version: DocArrayVersion::default(),
        };
        assert_eq!(described(&model)["model_id"], "alias");
        assert_eq!(described(&model)["max_input_length"], Value::Null);
        model.info = Some(ModelInfo {
            name: "a/b".to_owned(),
            max_length: 256,
            pooling: "mean".to_owned(),
            precision: "bf16".to_owned(),
            kind: ModelKind::Embedding,
            ..ModelInfo::default()
        });
        let described = described(&model);
        assert_eq!(described["model_id"], "a/b");
        assert_eq!(described["model_dtype"], "bfloat16");
        assert_eq!(described["model_type"]["embedding"]["pooling"], "mean");
        assert_eq!(described["dimensions"], Value::Null);
    }

    #[test]
    fn a_classifier_is_described_with_its_labels() {
        let model = ServedModel {
            id: "c".to_owned(),
            executor: "classifier".to_owned(),
            endpoint: "/classify".to_owned(),
            info: Some(ModelInfo {
                kind: ModelKind::Classifier,
                labels: vec!["bad".to_owned(), "good".to_owned()],
                ..ModelInfo::default()
            }),
            version: DocArrayVersion::default(),
        };
        let expected = json!({
            "classifier": {
                "id2label": {"0": "bad", "1": "good"},
                "label2id": {"bad": 0, "good": 1},
            },
        });
        assert_eq!(described(&model)["model_type"], expected);
    }
}
