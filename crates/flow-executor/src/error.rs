//! What an executor's own code may fail with: any error, kept with all its causes.

use std::fmt;

use flow_core::{Chain, Code, Failure};

/// A call did not succeed.
///
/// Made from any error by `?`, or from a text by [`CallError::new`]. The caller gets the error with all
/// its causes.
#[derive(Debug)]
pub struct CallError {
    code: Code,
    message: String,
}

impl CallError {
    /// The executor could not do its work.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: Code::ExecutorFailed,
            message: message.into(),
        }
    }

    /// The caller asked for something that cannot be done: a bad parameter, a document of the wrong kind.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self {
            code: Code::BadRequest,
            message: message.into(),
        }
    }

    pub(crate) fn into_failure(self) -> Failure {
        Failure::new(self.code, self.message)
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

/// An executor could not be built.
///
/// Made from any error by `?`, or from a text by [`LoadError::new`]. It ends the process, and whoever
/// started it gets the text.
#[derive(Debug)]
pub struct LoadError(String);

impl LoadError {
    /// What went wrong, what was expected, what to do.
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
