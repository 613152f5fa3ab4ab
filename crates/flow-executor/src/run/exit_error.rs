//! Errors that end the program, each with an exit code.

use std::process::ExitCode;

use flow_core::Chain;
use flow_process::exit;

use crate::server::ServeError;

/// Why the program ends, and its exit code.
#[derive(Debug)]
pub(crate) struct ExitError {
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl ExitError {
    /// A wrong argument or variable.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: exit::USAGE,
        }
    }

    /// Any other error.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: exit::FAILURE,
        }
    }

    /// Any other error, with its causes.
    pub(crate) fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::failure(Chain(error).to_string())
    }

    /// The exit code, after the message is printed.
    pub(crate) fn report(self) -> ExitCode {
        #[allow(clippy::print_stderr, reason = "the last message of the program")]
        {
            eprintln!("flow: {}", self.message);
        }
        self.code.into()
    }
}

impl From<ServeError> for ExitError {
    fn from(error: ServeError) -> Self {
        let code = match error {
            ServeError::With { .. } | ServeError::Settings { .. } => exit::USAGE,
            ServeError::Exception { .. } | ServeError::Last { .. } => exit::EXECUTOR_FAILED,
            _ => exit::FAILURE,
        };
        Self {
            code,
            ..Self::from_error(&error)
        }
    }
}
