//! Translates failures to gRPC statuses and back.

use std::time::Duration;

use flow_core::{Code, Failure};
use tonic::Status;

use crate::retry::Pushback;

/// The status of a call that failed as a whole.
///
/// Stock clients raise `ConnectionError` for UNAVAILABLE, NOT_FOUND and DEADLINE_EXCEEDED, and show the
/// text of the others; stock gateways hide the cause of INTERNAL, UNKNOWN and CANCELLED.
#[must_use]
pub fn from_failure(failure: &Failure) -> Status {
    let mut status = Status::new(to_grpc(failure.code()), failure.to_string());
    if let Some(after) = failure.retry_after() {
        let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        status.metadata_mut().insert(PUSHBACK, ms.into());
    }
    status
}

/// The failure that a call's status reports.
///
/// A status that this side made because the connection broke has a cause: the server may have begun the
/// work. A connection that could not be made at all is UNAVAILABLE, and so is a stream that the server refused.
#[must_use]
pub fn to_failure(status: &Status) -> Failure {
    let message = match status.message() {
        "" => format!("gRPC status {:?}", status.code()),
        text => text.to_owned(),
    };
    if is_timeout(status) {
        return too_late();
    }
    let Some(cause) = std::error::Error::source(status) else {
        return Failure::new(from_grpc(status.code()), message);
    };
    let code = match from_grpc(status.code()) {
        _ if was_never_sent(cause) => Code::Unavailable,
        Code::Internal | Code::Cancelled => Code::Lost,
        other => other,
    };
    Failure::new(code, with_causes(message, cause))
}

/// A call without a reply.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) failure: Failure,
    /// Whether the server sent the failure. Otherwise the connection broke, or could not be made.
    pub(crate) answered: bool,
    /// What the server says of further tries.
    pub(crate) pushback: Option<Pushback>,
}

impl CallError {
    pub(crate) fn unanswered(failure: Failure) -> Self {
        Self {
            failure,
            answered: false,
            pushback: None,
        }
    }
}

impl From<&Status> for CallError {
    fn from(status: &Status) -> Self {
        Self {
            failure: to_failure(status),
            // A status that this side made has the error that led to it.
            answered: std::error::Error::source(status).is_none(),
            pushback: pushback(status),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        error.failure
    }
}

/// Metadata by which a server says after how many milliseconds a call may be tried again; any other text means
/// never.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

fn pushback(status: &Status) -> Option<Pushback> {
    let text = status.metadata().get(PUSHBACK)?.to_str().ok();
    let after = text.and_then(|text| text.parse().ok());
    Some(after.map_or(Pushback::Never, |ms| {
        Pushback::After(Duration::from_millis(ms))
    }))
}

/// Whether the connection closed while the request was waiting to be sent: then it certainly did not run.
fn was_never_sent(cause: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(cause), |error| error.source())
        .filter_map(|error| error.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_canceled)
}

/// The failure of a call whose deadline passed.
pub(crate) fn too_late() -> Failure {
    let message = "the deadline passed before there was a reply";
    Failure::new(Code::DeadlineExceeded, message)
}

/// Whether tonic ended the call at its deadline, here or at the server. It reports that as CANCELLED, which would
/// make a slow replica look like a broken one.
fn is_timeout(status: &Status) -> bool {
    status.code() == tonic::Code::Cancelled
        && status.message() == tonic::TimeoutExpired(()).to_string()
}

/// The message and its causes, without those that repeat the message.
fn with_causes(mut message: String, cause: &(dyn std::error::Error + 'static)) -> String {
    let mut next = Some(cause);
    while let Some(error) = next {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        next = error.source();
    }
    message
}

fn to_grpc(code: Code) -> tonic::Code {
    match code {
        Code::BadRequest => tonic::Code::InvalidArgument,
        Code::ExecutorFailed => tonic::Code::Aborted,
        Code::Unavailable | Code::Lost => tonic::Code::Unavailable,
        Code::DeadlineExceeded => tonic::Code::DeadlineExceeded,
        Code::Cancelled => tonic::Code::Cancelled,
        Code::Overloaded => tonic::Code::ResourceExhausted,
        Code::TooLarge => tonic::Code::OutOfRange,
        Code::Unimplemented => tonic::Code::Unimplemented,
        Code::Internal => tonic::Code::Internal,
    }
}

fn from_grpc(code: tonic::Code) -> Code {
    match code {
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => Code::BadRequest,
        tonic::Code::Aborted => Code::ExecutorFailed,
        tonic::Code::Unavailable | tonic::Code::NotFound => Code::Unavailable,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::Cancelled => Code::Cancelled,
        tonic::Code::ResourceExhausted => Code::Overloaded,
        tonic::Code::OutOfRange => Code::TooLarge,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::Ok
        | tonic::Code::Unknown
        | tonic::Code::Internal
        | tonic::Code::DataLoss
        | tonic::Code::AlreadyExists
        | tonic::Code::PermissionDenied
        | tonic::Code::Unauthenticated => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_translation_and_back() {
        let codes = [
            Code::BadRequest,
            Code::ExecutorFailed,
            Code::Unavailable,
            Code::DeadlineExceeded,
            Code::Cancelled,
            Code::Overloaded,
            Code::TooLarge,
            Code::Unimplemented,
            Code::Internal,
        ];
        for code in codes {
            let failure = Failure::new(code, "why");
            assert_eq!(to_failure(&from_failure(&failure)), failure);
        }
    }

    #[test]
    fn a_deadline_that_tonic_noticed_is_a_deadline() {
        let theirs = Status::cancelled("Timeout expired");
        let ours = Status::from_error(Box::new(tonic::TimeoutExpired(())));
        for status in [theirs, ours] {
            assert_eq!(to_failure(&status).code(), Code::DeadlineExceeded);
        }
        let other = Status::cancelled("the caller has gone");
        assert_eq!(to_failure(&other).code(), Code::Cancelled);
    }

    #[test]
    fn a_server_says_when_a_call_may_be_tried_again() {
        let check = |text: Option<&'static str>, expected: Option<Pushback>| {
            let mut status = Status::resource_exhausted("full");
            if let Some(text) = text {
                let value = tonic::metadata::MetadataValue::from_static(text);
                status.metadata_mut().insert(PUSHBACK, value);
            }
            assert_eq!(CallError::from(&status).pushback, expected);
        };
        check(None, None);
        check(
            Some("250"),
            Some(Pushback::After(Duration::from_millis(250))),
        );
        check(Some("-1"), Some(Pushback::Never));
        check(Some("soon"), Some(Pushback::Never));
        let failure = Failure::new(Code::Overloaded, "full");
        let failure = failure.with_retry_after(Duration::from_secs(1));
        let after = Pushback::After(Duration::from_secs(1));
        let status = from_failure(&failure);
        assert_eq!(CallError::from(&status).pushback, Some(after));
    }

    #[test]
    fn a_status_without_a_message_names_its_code() {
        let failure = to_failure(&Status::new(tonic::Code::Unknown, ""));
        assert_eq!(failure.message(), "gRPC status Unknown");
    }
}
