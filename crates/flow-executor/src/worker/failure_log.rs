//! Logs calls that fail, within a limit: a client that repeats a bad request must not fill the disk.

use std::time::Instant;

use flow_core::{Failure, LineBudget};

use super::exit_policy::FailureKind;

/// Logs the failed calls of one worker.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(LineBudget);

impl FailureLog {
    /// Logs a call that failed; the line names its requests.
    pub(crate) fn call(&mut self, failure: &Failure, kind: FailureKind) {
        if kind == FailureKind::Cancelled {
            return tracing::debug!("call ended early because its callers have gone");
        }
        if !self.0.take(Instant::now()) {
            return;
        }
        let left_out = Some(self.0.take_left_out()).filter(|lines| *lines > 0);
        let cause = failure.message();
        match failure.stacks() {
            [] if kind == FailureKind::Panic => {
                tracing::error!(cause, left_out, "executor panicked");
            }
            [] => tracing::info!(cause, left_out, "call failed"),
            stacks => {
                let traceback = stacks.concat();
                tracing::error!(target: "executor", left_out, "{}", traceback.trim_end());
            }
        }
    }
}
