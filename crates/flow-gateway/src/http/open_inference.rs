//! The Open Inference Protocol, version 2, of KServe and Triton: a tensor of texts in, a tensor of vectors out.

mod infer;
pub(crate) mod tensors;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use flow_core::ModelKind;
use serde_json::{Value, json};

use super::api_error::{ApiError, ErrorKind};
use super::models::{ServedModel, ServedModels};
use super::state::HttpState;

pub(crate) use infer::{OUTPUT, VERSION};

/// The name of the input.
pub(crate) const INPUT: &str = "text";

/// The extension for tensors as bytes.
const BINARY: &str = "binary_tensor_data";

/// The routes.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/v2", get(server))
        .route("/v2/", get(server))
        .route(
            "/v2/health/live",
            get(async || Json(json!({ "live": true }))),
        )
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/{*path}", get(model).post(infer))
}

/// What a path below `/v2/models/` asks for. The names of models may contain `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelPath<'p> {
    model: &'p str,
    /// Empty for any version.
    version: &'p str,
    operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Describe,
    Ready,
    Infer,
}

impl<'p> ModelPath<'p> {
    fn parse(path: &'p str) -> Self {
        let (path, operation) = match path.rsplit_once('/') {
            Some((model, "ready")) => (model, Operation::Ready),
            Some((model, "infer")) => (model, Operation::Infer),
            _ => (path, Operation::Describe),
        };
        let (model, version) = match path.rsplit_once("/versions/") {
            Some((model, version)) if !version.contains('/') => (model, version),
            _ => (path, ""),
        };
        Self {
            model,
            version,
            operation,
        }
    }
}

/// Refuses a version of a model that is not served. No version, an empty text, is any version.
pub(crate) fn check_version(model: &str, version: &str) -> Result<(), ApiError> {
    if version.is_empty() || version == VERSION {
        return Ok(());
    }
    let message = format!("model `{model}` has no version `{version}`, only `{VERSION}`");
    Err(ApiError::new(ErrorKind::NoModel, message))
}

async fn server() -> Json<Value> {
    Json(json!({
        "name": "flow",
        "version": env!("CARGO_PKG_VERSION"),
        "extensions": [BINARY],
    }))
}

async fn ready(State(state): State<HttpState>) -> Response {
    is_ready(state.service.is_ready(), "ready")
}

fn is_ready(ready: bool, field: &str) -> Response {
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ field: ready }))).into_response()
}

async fn model(State(state): State<HttpState>, Path(path): Path<String>) -> Response {
    let models = ServedModels::of(&state.service.snapshot()).await;
    let path = ModelPath::parse(&path);
    let model = models
        .find(ModelKind::Embedding, Some(path.model))
        .and_then(|model| check_version(path.model, path.version).map(|()| model));
    match (model, path.operation) {
        (Err(error), _) => failed(&error),
        (Ok(model), Operation::Describe) => Json(described(model)).into_response(),
        (Ok(_), Operation::Ready) => is_ready(state.service.is_ready(), "ready"),
        (Ok(_), Operation::Infer) => {
            let message = "`infer` takes POST requests";
            let error = ApiError::new(ErrorKind::NoRoute, message);
            error.response(StatusCode::METHOD_NOT_ALLOWED, error_body(message))
        }
    }
}

fn described(model: &ServedModel) -> Value {
    let dimensions = model.info.as_ref().map(|info| info.dimensions);
    let width = dimensions.map_or(json!(-1), |width| json!(width));
    json!({
        "name": model.id,
        "versions": [VERSION],
        "platform": "flow",
        "inputs": [{ "name": INPUT, "datatype": "BYTES", "shape": [-1] }],
        "outputs": [{ "name": OUTPUT, "datatype": "FP32", "shape": [-1, width] }],
    })
}

async fn infer(
    State(state): State<HttpState>,
    Path(path): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let reply = async {
        let path = ModelPath::parse(&path);
        if path.operation != Operation::Infer {
            let message = format!("there is no route `/v2/models/{}` for POST", path.model);
            return Err(ApiError::new(ErrorKind::NoRoute, message));
        }
        check_version(path.model, path.version)?;
        infer::infer(&state, path.model, &headers, request).await
    };
    reply.await.unwrap_or_else(|error| failed(&error))
}

/// An error in the protocol's shape.
fn failed(error: &ApiError) -> Response {
    error.response(error.status(), error_body(&error.message))
}

fn error_body(message: &str) -> Json<Value> {
    Json(json!({ "error": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, model: &str, operation: Operation) {
        check_with_version(path, (model, ""), operation);
    }

    #[track_caller]
    fn check_with_version(path: &str, (model, version): (&str, &str), operation: Operation) {
        let expected = ModelPath {
            model,
            version,
            operation,
        };
        assert_eq!(ModelPath::parse(path), expected, "{path}");
    }

    #[test]
    fn the_model_has_one_version() {
        assert!(check_version("m", "").is_ok());
        assert!(check_version("m", VERSION).is_ok());
        let refused = check_version("m", "7").unwrap_err();
        assert_eq!(refused.message, "model `m` has no version `7`, only `1`");
    }

    #[test]
    fn the_name_of_a_model_may_contain_slashes() {
        check("m", "m", Operation::Describe);
        check("m/ready", "m", Operation::Ready);
        check("a/b/infer", "a/b", Operation::Infer);
        check("a/b", "a/b", Operation::Describe);
        check_with_version("a/b/versions/1/infer", ("a/b", "1"), Operation::Infer);
        check_with_version("m/versions/7", ("m", "7"), Operation::Describe);
    }
}
