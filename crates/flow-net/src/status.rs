//! The one table between our failures and gRPC's statuses.

use flow_core::{Code, Failure};
use tonic::Status;

/// How a failure is told where a whole call failed, rather than one request's reply.
///
/// Stock clients raise `ConnectionError` for UNAVAILABLE, NOT_FOUND and DEADLINE_EXCEEDED, and show the
/// text of the others; INTERNAL, UNKNOWN and CANCELLED hide the cause behind stock gateways.
#[must_use]
pub fn from_failure(failure: &Failure) -> Status {
    Status::new(to_grpc(failure.code()), failure.to_string())
}

/// What a call's status means for the request.
///
/// A status that our own side made because the connection broke has a cause: the other side may have
/// begun the work. A connection that could not be made at all is UNAVAILABLE, and so is a stream that
/// the other side refused.
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

/// The connection closed under a request that was still waiting to be sent: it certainly did not run.
fn was_never_sent(cause: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(cause), |error| error.source())
        .filter_map(|error| error.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_canceled)
}

/// The deadline passed before there was a reply.
pub(crate) fn too_late() -> Failure {
    let message = "the deadline passed before there was a reply";
    Failure::new(Code::DeadlineExceeded, message)
}

/// tonic ends calls at their deadline too, here or at the other side, and calls it CANCELLED: taken at
/// its word, a replica that is slow would look like one that broke.
fn is_timeout(status: &Status) -> bool {
    status.code() == tonic::Code::Cancelled
        && status.message() == tonic::TimeoutExpired(()).to_string()
}

/// The message and its causes, but for those that only repeat the one before.
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
    fn every_code_comes_back_as_itself() {
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
    fn a_deadline_that_tonic_saw_first_is_a_deadline_too() {
        let theirs = Status::cancelled("Timeout expired");
        let ours = Status::from_error(Box::new(tonic::TimeoutExpired(())));
        for status in [theirs, ours] {
            assert_eq!(to_failure(&status).code(), Code::DeadlineExceeded);
        }
        let other = Status::cancelled("the caller has gone");
        assert_eq!(to_failure(&other).code(), Code::Cancelled);
    }

    #[test]
    fn a_status_without_words_still_says_something() {
        let failure = to_failure(&Status::new(tonic::Code::Unknown, ""));
        assert_eq!(failure.message(), "gRPC status Unknown");
    }
}
