//! Whether a process that is there still answers.
//!
//! A process that hangs does not end by itself, so nobody would start it again: it is asked for its
//! health from time to time, and one that has not answered so many times in a row is taken for dead.
//! Whatever it says is an answer. Who has never answered is not judged by its silence: it may speak no
//! gRPC, or behind a certificate that is not ours to check.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use flow_core::{Code, Deadline, Failure};
use flow_net::{Limits, Replica};

/// How often a process is asked, and how much silence it is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liveness {
    /// Wait between two questions.
    pub every: Duration,
    /// An answer that takes longer is none.
    pub answer_max: Duration,
    /// So many questions in a row without an answer, and the process is taken for dead.
    pub missed_max: u32,
}

impl Default for Liveness {
    fn default() -> Self {
        Self {
            // One small call for each process: nobody notices it.
            every: Duration::from_secs(5),
            // Answers come from a thread that never works on documents, so this is a machine that swaps.
            answer_max: Duration::from_secs(5),
            missed_max: 3,
        }
    }
}

/// The record of one process's answers.
#[derive(Debug, Default)]
struct Silence {
    has_answered: bool,
    missed: u32,
}

impl Silence {
    /// Takes note of one question; true: that was one silence too many.
    fn note(&mut self, answered: bool, missed_max: u32) -> bool {
        if answered {
            *self = Self {
                has_answered: true,
                missed: 0,
            };
        } else if self.has_answered {
            self.missed += 1;
        }
        self.missed >= missed_max
    }
}

/// Returns when the process that listens there has been silent for too long.
pub(crate) async fn lost(liveness: Liveness, address: SocketAddr) {
    let Ok(process) = Replica::new(&format!("http://{address}"), Limits::default()) else {
        return std::future::pending().await;
    };
    let mut silence = Silence::default();
    // The first question comes at once: a process that is ready answers it, and may hang soon after.
    loop {
        let deadline = Deadline::after(Instant::now(), Some(liveness.answer_max));
        let answered = is_answer(&process.is_serving(deadline).await);
        if silence.note(answered, liveness.missed_max) {
            return;
        }
        tokio::time::sleep(liveness.every).await;
    }
}

fn is_answer(outcome: &Result<bool, Failure>) -> bool {
    let silent = |failure: &Failure| {
        matches!(
            failure.code(),
            Code::Unavailable | Code::Lost | Code::DeadlineExceeded
        )
    };
    !outcome.as_ref().is_err_and(silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` answered, `.` did not → after which question it is taken for dead.
    fn check(questions: &str, expected: Option<usize>) {
        let mut silence = Silence::default();
        let found = questions.chars().position(|it| silence.note(it == 'a', 3));
        assert_eq!(found.map(|it| it + 1), expected, "{questions}");
    }

    #[test]
    fn silences_in_a_row_after_an_answer_are_counted() {
        check("aaaa", None);
        check("a...", Some(4));
        check("a..a..a", None);
        check("a..a...", Some(7));
    }

    #[test]
    fn who_never_answered_is_not_judged_by_its_silence() {
        check("......", None);
        check("...a...", Some(7));
    }

    #[test]
    fn a_refusal_is_an_answer() {
        let failed = |code| is_answer(&Err(Failure::new(code, "no")));
        assert!(is_answer(&Ok(false)));
        assert!(failed(Code::Internal));
        assert!(!failed(Code::Unavailable) && !failed(Code::DeadlineExceeded));
    }
}
