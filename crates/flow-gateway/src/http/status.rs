//! The status codes of failures, and errors in the format of Jina's gateway.

use std::time::Duration;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use flow_core::{Code, Failure};
use flow_proto::jina::StatusProto;
use serde_json::{Value, json};

/// The client closed the request, as nginx reports it.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The HTTP status of a kind of failure.
pub(crate) fn status(code: Code) -> StatusCode {
    match code {
        Code::BadRequest => StatusCode::BAD_REQUEST,
        Code::ExecutorFailed | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unavailable | Code::Lost => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled => {
            StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::BAD_REQUEST)
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
    }
}

/// FastAPI's shape for errors, which clients of Jina expect.
pub(crate) fn detail(status: StatusCode, detail: &str) -> Response {
    (status, Json(json!({ "detail": detail }))).into_response()
}

/// A status as stock gateways write it.
pub(crate) fn status_json(status: &StatusProto) -> Value {
    let exception = status.exception.as_ref().map(|it| {
        json!({ "name": it.name, "args": it.args, "stacks": it.stacks, "executor": it.executor })
    });
    json!({
        "code": status.code,
        "description": status.description,
        "exception": exception,
    })
}

pub(crate) fn failed(failure: &Failure) -> Response {
    let mut response = detail(status(failure.code()), &failure.to_string());
    write_retry_after(response.headers_mut(), failure.retry_after());
    response
}

/// Says after how many seconds the client may try again, if that is known.
pub(crate) fn write_retry_after(headers: &mut HeaderMap, after: Option<Duration>) {
    if let Some(after) = after {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_has_the_status_of_a_success() {
        for code in Code::ALL {
            let status = status(*code);
            assert!(status.as_u16() >= 400, "{code:?} is {status}");
        }
        assert_eq!(status(Code::Cancelled).as_u16(), CLIENT_CLOSED_REQUEST);
    }
}
