//! The exit codes, and how an error that ends the program is told.

use std::process::ExitCode;

use crate::output;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All that was asked for was done: 0.
    Fine,
    /// Something went wrong on the way: 1.
    Failed,
    /// What was typed, or a file that was named, is wrong: 2.
    BadUsage,
    /// A second signal ended it before what was under way was finished: 130.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Failed => Self::from(1),
            // clap uses it too, for options that are wrong.
            Exit::BadUsage => Self::from(2),
            // As shells have it: 128 and the number of SIGINT.
            Exit::Interrupted => Self::from(130),
        }
    }
}

/// Marks an error as the user's to repair: what was typed or a file that was named.
///
/// Attach it with `anyhow::Context::context`; its text leads the message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

/// Prints an error with its causes on one line, and says how the program ends for it.
pub(crate) fn tell(error: &anyhow::Error) -> Exit {
    if output::is_broken_pipe(error) {
        // Whoever read our output has had enough; that is no failure worth a word.
        return Exit::Failed;
    }
    output::error_line(&format!("flow: {error:#}"));
    if is_users(error) {
        Exit::BadUsage
    } else {
        Exit::Failed
    }
}

/// Whether an error is the user's to repair.
pub(crate) fn is_users(error: &anyhow::Error) -> bool {
    error.is::<BadUsage>() || error.is::<flow_spec::LoadError>()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_mark_is_found_under_further_context() {
        let marked = Err::<(), _>(std::io::Error::other("no"))
            .context(BadUsage("cannot read `x`".to_owned()))
            .unwrap_err();
        assert_eq!(format!("{marked:#}"), "cannot read `x`: no");
        assert_eq!(tell(&marked), Exit::BadUsage);
        assert_eq!(tell(&anyhow::anyhow!("no")), Exit::Failed);
    }
}
