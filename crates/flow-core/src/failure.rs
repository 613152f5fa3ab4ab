//! Failures of requests: a [`Code`] from a closed set, and a message for the caller.
//!
//! A failure is sent in the header of a reply ([`Failure::to_status`]), or as a gRPC status (`flow_net::status`).

use std::error::Error;
use std::fmt;
use std::time::Duration;

use flow_proto::jina::{StatusProto, status_proto};

/// The kinds of failures that callers need to distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is invalid; sending it again does not help.
    BadRequest,
    /// The executor's own code failed or panicked.
    ExecutorFailed,
    /// No executor could be reached; the request certainly did not run.
    Unavailable,
    /// The connection broke while the request was in progress; it may have run.
    Lost,
    /// The deadline passed; the request may have run.
    DeadlineExceeded,
    /// The caller cancelled the request, or disconnected.
    Cancelled,
    /// The caller did not prove who it is.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// The server is busy and accepts no more requests.
    Overloaded,
    /// The message is larger than the limit.
    TooLarge,
    /// The server does not offer this.
    Unimplemented,
    /// A bug; the message says what happened.
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: &[Self] = &[
        Self::BadRequest,
        Self::ExecutorFailed,
        Self::Unavailable,
        Self::Lost,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Unauthenticated,
        Self::Forbidden,
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
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Overloaded => "overloaded",
            Self::TooLarge => "too_large",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
        }
    }

    /// The code of an exception's name: the inverse of [`exception`](Self::exception). Names of other exceptions are those
    /// of stock executors, whose own code failed.
    ///
    /// A connection that failed on the way may have carried the request, so its code is [`Lost`](Self::Lost).
    #[must_use]
    pub fn from_exception(name: &str) -> Self {
        if name == Self::Lost.exception() {
            return Self::Lost;
        }
        let found = Self::ALL.iter().find(|code| code.exception() == name);
        found.copied().unwrap_or(Self::ExecutorFailed)
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
            Self::Unauthenticated => "AuthenticationError",
            Self::Forbidden => "PermissionError",
            Self::Overloaded => "OverloadedError",
            Self::TooLarge => "MessageTooLarge",
            Self::Unimplemented => "NotImplementedError",
            Self::Internal => "RuntimeError",
        }
    }
}

/// A failed request: what kind of failure, what happened, and at which node.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    code: Code,
    message: String,
    executor: Option<String>,
    /// The exception that was raised, for executors whose language has exceptions.
    exception: Option<Box<Exception>>,
    stacks: Vec<String>,
    retry_after: Option<Duration>,
}

/// An exception of an executor's own language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The name of its class, such as `ValueError`.
    pub name: String,
    /// Its arguments, as texts.
    pub args: Vec<String>,
}

impl Failure {
    /// A failure with a message for the caller: lower case, values in backticks, no full stop.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            executor: None,
            exception: None,
            stacks: Vec::new(),
            retry_after: None,
        }
    }

    /// A failure that an error caused; the message contains the error and all its causes.
    #[must_use]
    pub fn from_error(code: Code, error: &(dyn Error + 'static)) -> Self {
        Self::new(code, Chain(error).to_string())
    }

    /// The same failure as another kind.
    #[must_use]
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// Sets the executor at which it happened.
    #[must_use]
    pub fn at(mut self, executor: impl Into<String>) -> Self {
        self.executor = Some(executor.into());
        self
    }

    /// Sets the exception that was raised.
    #[must_use]
    pub fn with_exception(mut self, exception: Exception) -> Self {
        self.exception = Some(Box::new(exception));
        self
    }

    /// Sets where in the code it happened, the outermost call first.
    #[must_use]
    pub fn with_stacks(mut self, stacks: Vec<String>) -> Self {
        self.stacks = stacks;
        self
    }

    /// Where in the code it happened, the outermost call first; empty if it is not known.
    #[must_use]
    pub fn stacks(&self) -> &[String] {
        &self.stacks
    }

    /// Sets the time after which the caller may try again.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The time after which the caller may try again, if the failure has one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The name of the exception that stock clients show: that of the exception that was raised, or else of the code.
    #[must_use]
    pub fn exception_name(&self) -> &str {
        let raised = self.exception.as_ref().map(|it| it.name.as_str());
        raised.unwrap_or_else(|| self.code.exception())
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

    /// The status of a reply that reports this failure.
    #[must_use]
    pub fn to_status(&self) -> StatusProto {
        StatusProto {
            code: status_proto::StatusCode::Error.into(),
            description: self.to_string(),
            exception: Some(status_proto::ExceptionProto {
                name: self.exception_name().to_owned(),
                args: match &self.exception {
                    Some(exception) => exception.args.clone(),
                    None => vec![self.message.clone()],
                },
                stacks: self.stacks.clone(),
                executor: self.executor.clone().unwrap_or_default(),
            }),
        }
    }
}

impl Failure {
    /// The failure that the status of a reply reports, if it reports one.
    ///
    /// Stock executors sometimes leave the description empty, and name only the exception. They name the executor beside
    /// the description; flow's own descriptions begin with it.
    #[must_use]
    pub fn from_status(status: &StatusProto) -> Option<Self> {
        if status.code() != status_proto::StatusCode::Error {
            return None;
        }
        let exception = status.exception.clone().unwrap_or_default();
        let described = format!("executor `{}`: ", exception.executor);
        let message = match (status.description.as_str(), exception.name.as_str()) {
            ("", "") => "the executor failed without a message".to_owned(),
            ("", name) => format!("{name}: {}", exception.args.join(", ")),
            (text, _) => text.strip_prefix(&described).unwrap_or(text).to_owned(),
        };
        let code = Code::from_exception(&exception.name);
        let failure = Self::new(code, message).with_stacks(exception.stacks);
        Some(match exception.executor.as_str() {
            "" => failure,
            executor => failure.at(executor),
        })
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
    fn the_message_contains_the_cause() {
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

    #[test]
    fn a_status_has_the_exception_that_was_raised() {
        let failure =
            Failure::new(Code::ExecutorFailed, "ValueError('bad')").with_exception(Exception {
                name: "ValueError".to_owned(),
                args: vec!["bad".to_owned()],
            });
        let exception = failure.to_status().exception.unwrap();
        assert_eq!(
            (exception.name.as_str(), exception.args),
            ("ValueError", vec!["bad".to_owned()])
        );
        assert_eq!(failure.exception_name(), "ValueError");
    }

    #[test]
    fn a_failure_survives_the_status_of_a_reply() {
        for code in Code::ALL {
            let failure = Failure::new(*code, "why").at("encoder");
            let found = Failure::from_status(&failure.to_status()).unwrap();
            let code = match code {
                Code::Unavailable => Code::Lost,
                code => *code,
            };
            assert_eq!(found, Failure::new(code, "why").at("encoder"));
        }
        assert_eq!(Failure::from_status(&StatusProto::default()), None);
    }

    #[test]
    fn a_status_without_a_description_is_described_by_its_exception() {
        let failure = Failure::new(Code::ExecutorFailed, "no such file").at("encoder");
        let mut status = failure.to_status();
        status.description.clear();
        let found = Failure::from_status(&status).unwrap().to_string();
        assert_eq!(found, "executor `encoder`: ExecutorError: no such file");
        status.exception = None;
        let found = Failure::from_status(&status).unwrap().to_string();
        assert_eq!(found, "the executor failed without a message");
    }
}
