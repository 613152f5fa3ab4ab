//! What is said of a request that did not succeed.
//!
//! One closed [`Code`] and a message for the caller. How a failure looks on the wire is decided by who
//! answers: a reply's header ([`Failure::to_status`]), or a gRPC status (`flow_net::status`).

use std::error::Error;
use std::fmt;

use flow_proto::jina::{StatusProto, status_proto};

/// Why a request did not succeed, as far as its caller needs to tell cases apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request itself is wrong; sending it again will not help.
    BadRequest,
    /// The executor's own code failed or panicked.
    ExecutorFailed,
    /// Nobody could be reached who would do the work; it certainly did not run.
    Unavailable,
    /// The connection broke while the work was under way; it may have run.
    Lost,
    /// The deadline passed; the work may have run.
    DeadlineExceeded,
    /// The caller went away.
    Cancelled,
    /// Every queue is full.
    Overloaded,
    /// The message is larger than the limit.
    TooLarge,
    /// The other side does not offer this.
    Unimplemented,
    /// Something that should not happen; the message says what.
    Internal,
}

impl Code {
    /// Each of them.
    pub const ALL: &[Self] = &[
        Self::BadRequest,
        Self::ExecutorFailed,
        Self::Unavailable,
        Self::Lost,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Overloaded,
        Self::TooLarge,
        Self::Unimplemented,
        Self::Internal,
    ];

    /// The code's name, as logs and metrics show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::ExecutorFailed => "executor_failed",
            Self::Unavailable => "unavailable",
            Self::Lost => "lost",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::Overloaded => "overloaded",
            Self::TooLarge => "too_large",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
        }
    }

    /// The name of the exception that stock clients show for it.
    #[must_use]
    pub fn exception(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::ExecutorFailed => "ExecutorError",
            Self::Unavailable | Self::Lost => "ConnectionError",
            Self::DeadlineExceeded => "TimeoutError",
            Self::Cancelled => "CancelledError",
            Self::Overloaded => "OverloadedError",
            Self::TooLarge => "MessageTooLarge",
            Self::Unimplemented => "NotImplementedError",
            Self::Internal => "RuntimeError",
        }
    }
}

/// A request that did not succeed: what kind, what happened, and at which node.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    code: Code,
    message: String,
    executor: Option<String>,
    stacks: Vec<String>,
}

impl Failure {
    /// A failure with a message for the caller: lower case, values in backticks, no full stop.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            executor: None,
            stacks: Vec::new(),
        }
    }

    /// A failure that an error led to; the message holds the error and all its causes.
    #[must_use]
    pub fn from_error(code: Code, error: &(dyn Error + 'static)) -> Self {
        Self::new(code, Chain(error).to_string())
    }

    /// Says at which executor it happened.
    #[must_use]
    pub fn at(mut self, executor: impl Into<String>) -> Self {
        self.executor = Some(executor.into());
        self
    }

    /// Adds where in the code it happened, outermost call first.
    #[must_use]
    pub fn with_stacks(mut self, stacks: Vec<String>) -> Self {
        self.stacks = stacks;
        self
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// What happened.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The status of a reply that tells of this failure.
    #[must_use]
    pub fn to_status(&self) -> StatusProto {
        StatusProto {
            code: status_proto::StatusCode::Error.into(),
            description: self.to_string(),
            exception: Some(status_proto::ExceptionProto {
                name: self.code.exception().to_owned(),
                args: vec![self.message.clone()],
                stacks: self.stacks.clone(),
                executor: self.executor.clone().unwrap_or_default(),
            }),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.executor {
            Some(executor) => write!(f, "executor `{executor}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Error for Failure {}

impl From<crate::BadDocument> for Failure {
    fn from(error: crate::BadDocument) -> Self {
        Self::from_error(Code::BadRequest, &error)
    }
}

/// An error and its causes on one line, for logs, replies and stderr.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn the_cause_is_never_lost() {
        let cause = "x".parse::<u8>().unwrap_err();
        let failure = Failure::from_error(Code::Internal, &Outer(cause));
        assert_eq!(failure.message(), "outer: invalid digit found in string");
    }

    #[test]
    fn a_status_names_the_executor_once() {
        let status = Failure::new(Code::ExecutorFailed, "no such file")
            .at("encoder")
            .to_status();
        assert_eq!(status.code, 1);
        assert_eq!(status.description, "executor `encoder`: no such file");
        let exception = status.exception.unwrap();
        assert_eq!(exception.executor, "encoder");
        assert_eq!(exception.args, ["no such file"]);
    }
}
