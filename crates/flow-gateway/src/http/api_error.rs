//! Errors of requests of the APIs for models. Each API writes them in its own format.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use flow_core::{Code, Failure};

use super::status::{status, write_retry_after};

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The body is not JSON.
    Syntax,
    /// A field of the request is invalid.
    Invalid,
    /// There is nothing to work on.
    Empty,
    /// No executor runs such a model.
    NoModel,
    /// There is no such route.
    NoRoute,
    /// A call failed.
    Failed(Code),
}

/// A failed request of an API for models.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// The field that is invalid.
    pub(crate) field: Option<&'static str>,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            field: None,
            retry_after: None,
        }
    }

    /// A field that is invalid.
    pub(crate) fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message).at(field)
    }

    /// Names the field that is the cause.
    pub(crate) fn at(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    /// The status code, unless the API has another one.
    pub(crate) fn status(&self) -> StatusCode {
        match self.kind {
            ErrorKind::Syntax | ErrorKind::Invalid | ErrorKind::Empty => StatusCode::BAD_REQUEST,
            ErrorKind::NoModel | ErrorKind::NoRoute => StatusCode::NOT_FOUND,
            ErrorKind::Failed(code) => status(code),
        }
    }

    /// The failure of a call, for an API without an error format of its own.
    pub(crate) fn into_failure(self) -> Failure {
        let code = match self.kind {
            ErrorKind::Failed(code) => code,
            _ => Code::BadRequest,
        };
        let failure = Failure::new(code, self.message);
        match self.retry_after {
            Some(after) => failure.with_retry_after(after),
            None => failure,
        }
    }

    /// The response with this status and body, and the time after which the client may try again.
    pub(crate) fn response(&self, status: StatusCode, body: impl IntoResponse) -> Response {
        let mut response = (status, body).into_response();
        write_retry_after(response.headers_mut(), self.retry_after);
        response
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        Self {
            kind: ErrorKind::Failed(failure.code()),
            message: failure.to_string(),
            field: None,
            retry_after: failure.retry_after(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn a_busy_gateway_says_when_to_try_again_in_whole_seconds() {
        let failure = Failure::new(Code::Overloaded, "busy");
        let failure = failure.with_retry_after(Duration::from_millis(500));
        let error = ApiError::from(failure);
        let response = error.response(error.status(), "");
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn each_kind_has_a_status_of_its_own() {
        let status = |kind| ApiError::new(kind, "").status().as_u16();
        assert_eq!(status(ErrorKind::Invalid), 400);
        assert_eq!(status(ErrorKind::NoModel), 404);
        assert_eq!(status(ErrorKind::Failed(Code::DeadlineExceeded)), 504);
    }
}
