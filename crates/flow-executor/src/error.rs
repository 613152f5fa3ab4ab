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
    is_last: bool,
}

impl CallError {
    /// The executor could not do its work.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: Code::ExecutorFailed,
            message: message.into(),
            is_last: false,
        }
    }

    /// The caller asked for something that cannot be done: a bad parameter, a document of the wrong kind.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self {
            code: Code::BadRequest,
            message: message.into(),
            is_last: false,
        }
    }

    /// The process can do no more work, whatever is asked of it: a device is lost, say. After the reply it says that
    /// it does not serve, and ends with an error; a launcher starts it again.
    #[must_use]
    pub fn and_end(self) -> Self {
        Self {
            is_last: true,
            ..self
        }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.is_last
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
