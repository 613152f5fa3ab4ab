//! Translates failures to gRPC statuses and back.
//!
//! Several failures have the same gRPC code, and only some of them say that the request certainly did not run. So our own
//! servers name the failure in metadata. A status without it, from a stock server or a proxy, is read with care:
//! UNAVAILABLE then means that the request may have run.

use std::time::Duration;

use flow_core::{Code, Failure};
use tonic::Status;
use tonic::metadata::MetadataValue;

use crate::retry::Pushback;

/// The status of a call that failed as a whole.
///
/// Stock clients raise `ConnectionError` for UNAVAILABLE, NOT_FOUND and DEADLINE_EXCEEDED, and show the
/// text of the others; stock gateways hide the cause of INTERNAL, UNKNOWN and CANCELLED.
#[must_use]
pub fn from_failure(failure: &Failure) -> Status {
    let mut status = Status::new(to_grpc(failure.code()), failure.to_string());
    let code = MetadataValue::from_static(failure.code().as_str());
    status.metadata_mut().insert(CODE, code);
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
        let code = named(status).unwrap_or_else(|| from_grpc(status.code()));
        return Failure::new(code, message);
    };
    let code = match from_grpc(status.code()) {
        _ if was_never_sent(cause) => Code::Unavailable,
        Code::Internal | Code::Cancelled | Code::Overloaded => Code::Lost,
        other => other,
    };
    Failure::new(code, with_causes(message, cause))
}

/// The failure's code, if one of our own servers named it.
fn named(status: &Status) -> Option<Code> {
    let name = status.metadata().get(CODE)?.as_bytes();
    let is_named = |code: &&Code| code.as_str().as_bytes() == name;
    let code = Code::ALL.iter().find(is_named).copied();
    // A proxy that changed the status knows better.
    code.filter(|code| to_grpc(*code) == status.code())
}

/// A call without a reply.
#[derive(Debug)]
pub(crate) struct AttemptError {
    pub(crate) failure: Failure,
    /// Whether the server sent the failure. Otherwise the connection broke, or could not be made.
    pub(crate) answered: bool,
    /// What the server says of further tries.
    pub(crate) pushback: Option<Pushback>,
}

impl AttemptError {
    pub(crate) fn unanswered(failure: Failure) -> Self {
        Self {
            failure,
            answered: false,
            pushback: None,
        }
    }
}

impl From<&Status> for AttemptError {
    fn from(status: &Status) -> Self {
        Self {
            failure: to_failure(status),
            // A status that this side made has the error that led to it, except for the one that tonic makes at a deadline.
            answered: std::error::Error::source(status).is_none() && !is_timeout(status),
            pushback: pushback(status),
        }
    }
}

impl From<AttemptError> for Failure {
    fn from(error: AttemptError) -> Self {
        error.failure
    }
}

/// Metadata by which our own servers name the failure, as [`Code::as_str`] does.
const CODE: &str = "flow-failure";

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

/// Whether the server certainly did not begin the request: it could not be connected to, the connection closed while
/// the request was waiting to be sent, or the server refused the stream or named an earlier one as its last.
fn was_never_sent(cause: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(cause), |error| error.source()).any(|error| {
        let is_canceled = |error: &hyper::Error| error.is_canceled();
        error.is::<tonic::ConnectError>()
            || error.downcast_ref().is_some_and(is_canceled)
            || error.downcast_ref().is_some_and(was_not_processed)
            || error.downcast_ref().is_some_and(has_ended_silently)
    })
}

/// Whether the process ended before it sent anything on the connection. Code of the connection says so by this kind of error.
fn has_ended_silently(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

fn was_not_processed(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // h2 reports a GOAWAY of the server only to the streams after the last one that the server processed.
    (is_refused || error.is_go_away()) && error.is_remote()
}

/// The failure of a call whose deadline passed.
#[must_use]
pub fn too_late() -> Failure {
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

/// The attribute of a span with the number of a call's status.
pub const GRPC_STATUS: &str = "rpc.grpc.status_code";

/// The number of the status that a call ends with.
#[must_use]
pub fn grpc_status(failure: Option<Code>) -> i32 {
    failure.map_or(tonic::Code::Ok, to_grpc).into()
}

pub(crate) fn to_grpc(code: Code) -> tonic::Code {
    match code {
        Code::BadRequest => tonic::Code::InvalidArgument,
        Code::ExecutorFailed => tonic::Code::Aborted,
        Code::Unavailable | Code::Lost => tonic::Code::Unavailable,
        Code::DeadlineExceeded => tonic::Code::DeadlineExceeded,
        Code::Cancelled => tonic::Code::Cancelled,
        Code::Unauthenticated => tonic::Code::Unauthenticated,
        Code::Forbidden => tonic::Code::PermissionDenied,
        Code::Overloaded => tonic::Code::ResourceExhausted,
        Code::TooLarge => tonic::Code::OutOfRange,
        Code::Unimplemented => tonic::Code::Unimplemented,
        Code::Internal => tonic::Code::Internal,
    }
}

/// The name of the gRPC code of a failure, as the gRPC specification writes it.
#[must_use]
pub fn grpc_code_name(code: Code) -> &'static str {
    match code {
        Code::BadRequest => "INVALID_ARGUMENT",
        Code::ExecutorFailed => "ABORTED",
        Code::Unavailable | Code::Lost => "UNAVAILABLE",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::Cancelled => "CANCELLED",
        Code::Unauthenticated => "UNAUTHENTICATED",
        Code::Forbidden => "PERMISSION_DENIED",
        Code::Overloaded => "RESOURCE_EXHAUSTED",
        Code::TooLarge => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
    }
}

fn from_grpc(code: tonic::Code) -> Code {
    match code {
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => Code::BadRequest,
        tonic::Code::Aborted => Code::ExecutorFailed,
        // The server, or a proxy in front of it, may have begun.
        tonic::Code::Unavailable => Code::Lost,
        // Stock servers answer so before they have started.
        tonic::Code::NotFound => Code::Unavailable,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::Cancelled => Code::Cancelled,
        tonic::Code::Unauthenticated => Code::Unauthenticated,
        tonic::Code::PermissionDenied => Code::Forbidden,
        tonic::Code::ResourceExhausted => Code::Overloaded,
        tonic::Code::OutOfRange => Code::TooLarge,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::Ok
        | tonic::Code::Unknown
        | tonic::Code::Internal
        | tonic::Code::DataLoss
        | tonic::Code::AlreadyExists => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_translation_and_back() {
        for &code in Code::ALL {
            let failure = Failure::new(code, "why");
            assert_eq!(to_failure(&from_failure(&failure)), failure);
        }
    }

    #[test]
    fn names_of_codes_are_those_of_grpc() {
        for code in Code::ALL {
            // tonic writes `InvalidArgument`.
            let name = grpc_code_name(*code).replace('_', "").to_lowercase();
            assert_eq!(name, format!("{:?}", to_grpc(*code)).to_lowercase());
        }
    }

    #[test]
    fn a_status_that_no_server_of_ours_made_may_mean_that_the_request_ran() {
        let stock = Status::unavailable("upstream connect error or disconnect/reset");
        assert_eq!(to_failure(&stock).code(), Code::Lost);
        let mut changed = from_failure(&Failure::new(Code::Unavailable, "why"));
        let metadata = changed.metadata().clone();
        changed = Status::with_metadata(tonic::Code::Internal, "proxy", metadata);
        assert_eq!(to_failure(&changed).code(), Code::Internal);
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
            assert_eq!(AttemptError::from(&status).pushback, expected);
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
        assert_eq!(AttemptError::from(&status).pushback, Some(after));
    }

    #[test]
    fn a_status_without_a_message_names_its_code() {
        let failure = to_failure(&Status::new(tonic::Code::Unknown, ""));
        assert_eq!(failure.message(), "gRPC status Unknown");
    }
}
