//! Decides what the outcome of a call shows about the replica.

use flow_core::Code;

use crate::status::AttemptError;

/// Whether a call reached its replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The replica answered, if only with a failure.
    Yes,
    /// There was no connection, it broke, or the replica says that it is not available.
    No,
    /// The caller waited no longer: the replica may be slow, or gone.
    Unknown,
}

impl Reached {
    pub(crate) fn of(error: &AttemptError) -> Self {
        match error.failure.code() {
            Code::Unavailable | Code::Lost => Self::No,
            Code::DeadlineExceeded if !error.answered => Self::Unknown,
            _ => Self::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Failure;

    use super::*;

    #[track_caller]
    fn check(code: Code, answered: bool, expected: Reached) {
        let error = AttemptError {
            failure: Failure::new(code, "why"),
            answered,
            pushback: None,
        };
        assert_eq!(Reached::of(&error), expected);
    }

    #[test]
    fn only_an_answer_shows_that_a_replica_is_there() {
        check(Code::ExecutorFailed, true, Reached::Yes);
        check(Code::Overloaded, true, Reached::Yes);
        check(Code::DeadlineExceeded, true, Reached::Yes);
        check(Code::DeadlineExceeded, false, Reached::Unknown);
        check(Code::Unavailable, true, Reached::No);
        check(Code::Unavailable, false, Reached::No);
        check(Code::Lost, false, Reached::No);
    }

    #[test]
    fn a_deadline_that_tonic_noticed_here_is_no_answer() {
        let status = tonic::Status::cancelled(tonic::TimeoutExpired(()).to_string());
        assert_eq!(Reached::of(&AttemptError::from(&status)), Reached::Unknown);
    }
}
