//! The status codes of failures.

use axum::http::StatusCode;
use flow_core::Code;

/// The client closed the request, as nginx reports it.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The status code that tells an HTTP client what kind of failure it was.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_looks_like_a_success() {
        for code in Code::ALL {
            let status = status(*code);
            assert!(status.as_u16() >= 400, "{code:?} is {status}");
        }
        assert_eq!(status(Code::Cancelled).as_u16(), CLIENT_CLOSED_REQUEST);
    }
}
