//! Errors in the format of text-embeddings-inference.

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use flow_core::Code;
use serde_json::json;

use super::super::api_error::{ApiError, ErrorKind};

/// The response to a request that failed.
pub(super) fn failed(error: &ApiError) -> Response {
    let (status, kind) = status_and_type(error.kind);
    let body = json!({ "error": error.message, "error_type": kind });
    error.response(status, Json(body))
}

/// The status code and the type of an error. TEI has a code of its own for each of its types.
fn status_and_type(kind: ErrorKind) -> (StatusCode, &'static str) {
    const VALIDATION: &str = "Validation";
    const BACKEND: &str = "Backend";
    match kind {
        ErrorKind::Syntax => (StatusCode::BAD_REQUEST, VALIDATION),
        ErrorKind::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, VALIDATION),
        ErrorKind::Empty => (StatusCode::BAD_REQUEST, "Empty"),
        ErrorKind::NoModel | ErrorKind::NoRoute => (StatusCode::NOT_FOUND, BACKEND),
        ErrorKind::Failed(code) => match code {
            // A text is too long, and it may not be truncated.
            Code::BadRequest | Code::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, VALIDATION),
            Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Code::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
            Code::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "Overloaded"),
            Code::Unavailable | Code::Lost => (StatusCode::SERVICE_UNAVAILABLE, "Unhealthy"),
            Code::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, BACKEND),
            Code::ExecutorFailed | Code::Internal | Code::Unimplemented | Code::Cancelled => {
                (StatusCode::FAILED_DEPENDENCY, BACKEND)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_the_status_of_tei() {
        let check = |kind, status, name| {
            let (found, kind) = status_and_type(kind);
            assert_eq!((found.as_u16(), kind), (status, name));
        };
        check(ErrorKind::Empty, 400, "Empty");
        check(ErrorKind::Invalid, 422, "Validation");
        check(ErrorKind::Failed(Code::BadRequest), 413, "Validation");
        check(ErrorKind::Failed(Code::Overloaded), 429, "Overloaded");
        check(ErrorKind::Failed(Code::ExecutorFailed), 424, "Backend");
        check(ErrorKind::Failed(Code::Unavailable), 503, "Unhealthy");
    }
}
