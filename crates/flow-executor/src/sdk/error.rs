//! The errors of an executor's own code.

use std::fmt;

use flow_core::{Chain, Code, Exception, Failure};

/// A call that failed.
///
/// `?` makes it from any error, and [`CallError::new`] from a text. The caller gets the error with all its causes.
#[derive(Debug)]
pub struct CallError {
    code: Code,
    message: String,
    raised: Option<(Exception, Vec<String>)>,
    is_final: bool,
}

impl CallError {
    /// The executor could not do its work.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: Code::ExecutorFailed,
            message: message.into(),
            raised: None,
            is_final: false,
        }
    }

    /// An exception of the language in which the method is written, with where it was raised, the outermost call first.
    /// Stock clients show its name and arguments.
    #[must_use]
    pub fn raised(message: impl Into<String>, exception: Exception, stacks: Vec<String>) -> Self {
        Self {
            raised: Some((exception, stacks)),
            ..Self::new(message)
        }
    }

    /// The request is invalid: a wrong parameter, or a document without what the method needs.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self {
            code: Code::BadRequest,
            ..Self::new(message)
        }
    }

    /// What the executor needs, such as a database, cannot be reached. The request has changed nothing, or can be sent again
    /// without harm: it may succeed then.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            code: Code::Unavailable,
            ..Self::new(message)
        }
    }

    /// All callers of the call have gone, so that it was ended early. See [`Cancellation`](crate::Cancellation).
    #[must_use]
    pub fn cancelled() -> Self {
        Self {
            code: Code::Cancelled,
            ..Self::new("the callers have gone")
        }
    }

    /// The executor cannot continue with any request, for example because a device is lost. After the reply the process
    /// reports that it does not serve, and ends with an error. A launcher starts it again.
    #[must_use]
    pub fn and_end(self) -> Self {
        Self {
            is_final: true,
            ..self
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.code == Code::Cancelled
    }

    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }

    pub(crate) fn into_failure(self) -> Failure {
        let failure = Failure::new(self.code, self.message);
        match self.raised {
            Some((exception, stacks)) => failure.with_exception(exception).with_stacks(stacks),
            None => failure,
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::new(Chain(&error).to_string())
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An executor that cannot be loaded.
///
/// `?` makes it from any error, and [`LoadError::new`] from a text. It ends the process, which reports the text.
#[derive(Debug)]
pub struct LoadError(String);

impl LoadError {
    /// An error that says what went wrong, what was expected, and what to do.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl<E: std::error::Error + 'static> From<E> for LoadError {
    fn from(error: E) -> Self {
        Self(Chain(&error).to_string())
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
