//! Finds processes that hang.
//!
//! A process that hangs does not exit, so nothing would restart it. Each process gets a health check from time to time,
//! and one that leaves several in a row unanswered counts as dead. Any answer will do. A process that has never answered
//! is not judged: it may not speak gRPC. Where a process speaks TLS, the answer is that to the handshake.

use std::time::Duration;

use flow_process::ListenAddress;

use crate::process::backend::ProcessBackend;

/// How often the health of a process is checked, and how many checks it may miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivenessProbe {
    /// Wait between two health checks.
    pub interval: Duration,
    /// Time limit of a health check.
    pub timeout: Duration,
    /// Unanswered checks in a row after which the process counts as dead.
    pub failure_threshold: u32,
}

impl Default for LivenessProbe {
    fn default() -> Self {
        Self {
            // One small call to each process: it costs nothing that could be measured.
            interval: Duration::from_secs(5),
            // The thread that answers never works on documents, so only a machine that swaps takes this long.
            timeout: Duration::from_secs(5),
            failure_threshold: 3,
        }
    }
}

/// The answers of one process so far.
#[derive(Debug, Default)]
struct ProbeHistory {
    has_answered: bool,
    failures: u32,
}

impl ProbeHistory {
    /// Records a health check; `true` if it was the last that the process may leave unanswered.
    fn record(&mut self, answered: bool, failure_threshold: u32) -> bool {
        if answered {
            *self = Self {
                has_answered: true,
                failures: 0,
            };
        } else if self.has_answered {
            self.failures += 1;
        }
        self.failures >= failure_threshold
    }
}

/// Returns when the process that listens there has left too many health checks unanswered.
pub(crate) async fn failed(
    probe: LivenessProbe,
    (address, has_tls): (&ListenAddress, bool),
    backend: &dyn ProcessBackend,
) {
    let Some(check) = backend.health_check(address, has_tls) else {
        return std::future::pending().await;
    };
    let mut history = ProbeHistory::default();
    // The first check comes at once: a process that is ready answers it, and may hang soon after.
    loop {
        let answered = check.responds(probe.timeout).await;
        if history.record(answered, probe.failure_threshold) {
            return;
        }
        tokio::time::sleep(probe.interval).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` for an answer, `.` for none → the number of the check after which the process counts as dead.
    fn check(checks: &str, expected: Option<usize>) {
        let mut history = ProbeHistory::default();
        let found = checks.chars().position(|it| history.record(it == 'a', 3));
        assert_eq!(found.map(|it| it + 1), expected, "{checks}");
    }

    #[test]
    fn unanswered_checks_in_a_row_after_an_answer_are_counted() {
        check("aaaa", None);
        check("a...", Some(4));
        check("a..a..a", None);
        check("a..a...", Some(7));
    }

    #[test]
    fn a_process_that_never_answered_is_not_judged() {
        check("......", None);
        check("...a...", Some(7));
    }
}
