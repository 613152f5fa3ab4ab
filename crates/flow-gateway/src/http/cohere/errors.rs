//! Errors in Cohere's shape.

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use flow_core::{Code, RequestId};
use serde_json::json;

use super::super::api_error::{ApiError, ErrorKind};

/// The response to a request that failed.
pub(super) fn failed(error: &ApiError) -> Response {
    let status = match error.kind {
        ErrorKind::Failed(Code::ExecutorFailed) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => error.status(),
    };
    let id = String::from(RequestId::random());
    error.response(status, Json(json!({ "id": id, "message": error.message })))
}
