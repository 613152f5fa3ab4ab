//! The routes of Jina's HTTP gateway.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use flow_core::Failure;
use flow_proto::jina::{JinaInfoProto, StatusProto};
use serde_json::{Value, json};

use super::status::status;
use super::{HttpState, detail, options};

/// The routes.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/", get(async || Json(json!({}))))
        .route("/status", get(info))
        .route("/dry_run", get(dry_run))
}

async fn info(State(state): State<HttpState>) -> Json<Value> {
    let JinaInfoProto { jina, envs } = state.service.status();
    Json(json!({ "jina": jina, "envs": envs }))
}

async fn dry_run(State(state): State<HttpState>, headers: HeaderMap) -> Response {
    let status = async { state.service.dry_run(options(&headers)?).await };
    match status.await {
        Ok(status) => Json(status_json(&status)).into_response(),
        Err(failure) => failed(&failure),
    }
}

/// A status as stock gateways write it.
fn status_json(status: &StatusProto) -> Value {
    let exception = status.exception.as_ref().map(|it| {
        json!({ "name": it.name, "args": it.args, "stacks": it.stacks, "executor": it.executor })
    });
    json!({
        "code": status.code,
        "description": status.description,
        "exception": exception,
    })
}

fn failed(failure: &Failure) -> Response {
    detail(status(failure.code()), &failure.to_string())
}
