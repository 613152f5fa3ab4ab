//! Errors in OpenAI's format.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use flow_core::Code;
use serde_json::{Value, json};

use super::super::api_error::{ApiError, ErrorKind};

/// The response to a request that failed.
pub(crate) fn failed(error: &ApiError) -> Response {
    error.response(error.status(), Json(body(error)))
}

/// The response to a route that does not exist.
pub(crate) async fn no_route(method: Method, uri: Uri) -> Response {
    let message = format!(
        "there is no route for {method} {}; there are POST /v1/embeddings, GET /v1/models and GET \
         /v1/models/{{model}}",
        uri.path()
    );
    failed(&ApiError::new(ErrorKind::NoRoute, message))
}

/// The response to a route that exists for another method.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("{} does not take {method} requests", uri.path());
    let error = ApiError::new(ErrorKind::NoRoute, message);
    error.response(StatusCode::METHOD_NOT_ALLOWED, Json(body(&error)))
}

fn body(error: &ApiError) -> Value {
    let (kind, code) = kind_and_code(error.kind);
    json!({
        "error": {
            "message": error.message,
            "type": kind,
            "param": error.field,
            "code": code,
        }
    })
}

/// The type of an error, and its code if OpenAI has one for it.
fn kind_and_code(kind: ErrorKind) -> (&'static str, Option<&'static str>) {
    const INVALID: &str = "invalid_request_error";
    match kind {
        ErrorKind::Syntax | ErrorKind::Invalid | ErrorKind::Empty => (INVALID, None),
        ErrorKind::NoModel => (INVALID, Some("model_not_found")),
        ErrorKind::NoRoute => (INVALID, Some("unknown_url")),
        ErrorKind::Failed(code) => match code {
            Code::BadRequest => (INVALID, None),
            Code::TooLarge => (INVALID, Some("request_too_large")),
            Code::Unauthenticated => (INVALID, Some("invalid_api_key")),
            Code::Forbidden => ("permission_error", Some("insufficient_permissions")),
            Code::Overloaded => ("requests", Some("rate_limit_exceeded")),
            Code::DeadlineExceeded => ("timeout", Some("timeout")),
            Code::Unavailable | Code::Lost => ("server_error", Some("service_unavailable")),
            Code::ExecutorFailed | Code::Internal | Code::Unimplemented | Code::Cancelled => {
                ("server_error", None)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_fields_that_clients_read() {
        let error = ApiError::new(ErrorKind::NoModel, "no `x`").at("model");
        let expected = json!({"error": {
            "message": "no `x`", "type": "invalid_request_error", "param": "model", "code": "model_not_found",
        }});
        assert_eq!(body(&error), expected);
    }

    #[test]
    fn a_busy_gateway_is_a_rate_limit_to_clients_that_try_again() {
        let error = ApiError::new(ErrorKind::Failed(Code::Overloaded), "busy");
        assert_eq!(body(&error)["error"]["code"], "rate_limit_exceeded");
        assert_eq!(failed(&error).status(), StatusCode::TOO_MANY_REQUESTS);
    }
}
