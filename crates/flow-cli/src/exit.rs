//! Exit codes, and the mark of errors that the user has to correct.

use std::process::ExitCode;

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything succeeded: 0.
    Fine,
    /// Something failed: 1.
    Failed,
    /// The command line, or a file that it names, is invalid: 2.
    BadUsage,
    /// A signal ended it before it was finished: 130.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Failed => Self::from(flow_process::exit::FAILURE),
            Exit::BadUsage => Self::from(flow_process::exit::USAGE),
            Exit::Interrupted => Self::from(flow_process::exit::INTERRUPTED),
        }
    }
}

/// Marks an error of the command line, or of a file that it names.
///
/// Attach it with `anyhow::Context::context`; its text begins the message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

/// Whether the user has to correct the command line or a file.
pub(crate) fn is_bad_usage(error: &anyhow::Error) -> bool {
    error.is::<BadUsage>() || error.is::<flow_spec::LoadError>()
}
