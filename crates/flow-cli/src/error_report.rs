//! The report of the error that ends the program.

use crate::exit::{Exit, is_bad_usage};
use crate::output;

/// Prints an error with its causes on one line, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    if output::is_broken_pipe(error) {
        // The reader of our output has closed it: nothing to report.
        return Exit::Failed;
    }
    output::error_report(&format!("flow: {error:#}"));
    if is_bad_usage(error) {
        Exit::BadUsage
    } else {
        Exit::Failed
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::exit::BadUsage;

    #[test]
    fn a_mark_is_found_under_further_context() {
        let marked = Err::<(), _>(std::io::Error::other("no"))
            .context(BadUsage("cannot read `x`".to_owned()))
            .unwrap_err();
        assert_eq!(format!("{marked:#}"), "cannot read `x`: no");
        assert_eq!(report(&marked), Exit::BadUsage);
        assert_eq!(report(&anyhow::anyhow!("no")), Exit::Failed);
    }
}
