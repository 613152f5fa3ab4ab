//! Decides whether a call that failed may be tried again. Pure: no clock, no randomness of its own.
//!
//! By default only what certainly did not run is tried again: the connection could not be made, or the
//! other side said that it is unavailable. What may have run (a connection that broke, a replica that
//! died) is tried again only where the flow says that running twice does no harm. A failure of the
//! executor's own code is an answer and never tried again, and neither is anything past the deadline.
//!
//! The other side has a say: it may ask for a time to pass, or for no further try. One that is too busy
//! and names a time is taken at its word.

use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::Code;

/// Wait before the second try when there is nobody else to ask; doubled for each further one.
const WAIT_FIRST: Duration = Duration::from_millis(50);

/// Longest wait between two tries.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Tries again by default, or once for each replica if these are more. With the waits above a lone
/// executor has 2.5 s to come back: restarts take 0.2 s to 0.7 s here, and longer on a busy machine.
const RETRIES_DEFAULT: u32 = 6;

/// How often, and what, may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Most tries after the first; none: the default for the number of replicas.
    pub retries: Option<u32>,
    /// Running a request twice does no harm.
    pub idempotent: bool,
}

/// What is known when a try has failed.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// How it failed.
    pub code: Code,
    /// Tries made so far, this one included.
    pub tries: u32,
    /// Replicas there are.
    pub replicas: NonZeroUsize,
    /// What is left until the deadline, if there is one.
    pub remaining: Option<Duration>,
    /// What the other side said.
    pub pushback: Option<Pushback>,
}

/// What a replica that did not do the work says of trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushback {
    /// Not before this time has passed.
    After(Duration),
    /// Not at all.
    Never,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try again after this time.
    Retry(Duration),
    /// The failure stands.
    GiveUp,
}

/// Whether a failed try is followed by another.
#[must_use]
pub fn decide(policy: Policy, attempt: Attempt) -> Verdict {
    let retryable = match attempt.code {
        Code::Unavailable => true,
        Code::Lost => policy.idempotent,
        // Refused before it ran; whoever says no time does not expect us back.
        Code::Overloaded => matches!(attempt.pushback, Some(Pushback::After(_))),
        _ => false,
    };
    let replicas = u32::try_from(attempt.replicas.get()).unwrap_or(u32::MAX);
    let allowed = policy
        .retries
        .unwrap_or_else(|| replicas.max(RETRIES_DEFAULT));
    if !retryable || attempt.tries > allowed {
        return Verdict::GiveUp;
    }
    let wait = match attempt.pushback {
        None => wait(attempt.tries, replicas),
        Some(Pushback::After(wait)) => wait,
        Some(Pushback::Never) => return Verdict::GiveUp,
    };
    let too_late = attempt.remaining.is_some_and(|left| left <= wait);
    if too_late {
        Verdict::GiveUp
    } else {
        Verdict::Retry(wait)
    }
}

/// No wait while there are replicas that were not asked yet.
fn wait(tries: u32, replicas: u32) -> Duration {
    match tries.checked_sub(replicas) {
        None => Duration::ZERO,
        Some(rounds) => WAIT_FIRST.saturating_mul(1 << rounds.min(10)).min(WAIT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn attempt(code: Code, tries: u32, replicas: usize) -> Attempt {
        let replicas = NonZeroUsize::new(replicas).unwrap();
        Attempt {
            code,
            tries,
            replicas,
            remaining: None,
            pushback: None,
        }
    }

    #[track_caller]
    fn check(policy: Policy, attempt: Attempt, expected: Verdict) {
        assert_eq!(decide(policy, attempt), expected);
    }

    #[test]
    fn what_certainly_did_not_run_is_tried_again() {
        let policy = Policy::default();
        check(
            policy,
            attempt(Code::Unavailable, 1, 2),
            Verdict::Retry(Duration::ZERO),
        );
        check(
            policy,
            attempt(Code::Unavailable, 1, 1),
            Verdict::Retry(ms(50)),
        );
    }

    #[test]
    fn what_may_have_run_is_tried_again_only_where_that_does_no_harm() {
        let idempotent = Policy {
            idempotent: true,
            ..Policy::default()
        };
        check(
            Policy::default(),
            attempt(Code::Lost, 1, 2),
            Verdict::GiveUp,
        );
        check(
            idempotent,
            attempt(Code::Lost, 1, 2),
            Verdict::Retry(Duration::ZERO),
        );
    }

    #[test]
    fn an_answer_is_never_asked_for_again() {
        let idempotent = Policy {
            idempotent: true,
            ..Policy::default()
        };
        for code in [
            Code::BadRequest,
            Code::ExecutorFailed,
            Code::DeadlineExceeded,
            Code::Cancelled,
            Code::Overloaded,
            Code::TooLarge,
            Code::Unimplemented,
            Code::Internal,
        ] {
            check(idempotent, attempt(code, 1, 2), Verdict::GiveUp);
        }
    }

    #[test]
    fn tries_end_at_exactly_the_limit() {
        let policy = Policy {
            retries: Some(2),
            ..Policy::default()
        };
        check(
            policy,
            attempt(Code::Unavailable, 2, 9),
            Verdict::Retry(Duration::ZERO),
        );
        check(policy, attempt(Code::Unavailable, 3, 9), Verdict::GiveUp);
        let never = Policy {
            retries: Some(0),
            ..Policy::default()
        };
        check(never, attempt(Code::Unavailable, 1, 9), Verdict::GiveUp);
    }

    #[test]
    fn by_default_every_replica_is_asked_once() {
        check(
            Policy::default(),
            attempt(Code::Unavailable, 9, 9),
            Verdict::Retry(ms(50)),
        );
        check(
            Policy::default(),
            attempt(Code::Unavailable, 10, 9),
            Verdict::GiveUp,
        );
    }

    #[test]
    fn waits_double_once_nobody_else_is_left() {
        let waits = [(1, 50), (2, 100), (3, 200), (4, 400), (5, 800), (6, 1000)];
        for (tries, wait) in waits {
            check(
                Policy::default(),
                attempt(Code::Unavailable, tries, 1),
                Verdict::Retry(ms(wait)),
            );
        }
    }

    #[test]
    fn nobody_waits_past_the_deadline() {
        let late = Attempt {
            remaining: Some(ms(50)),
            ..attempt(Code::Unavailable, 1, 1)
        };
        check(Policy::default(), late, Verdict::GiveUp);
        let early = Attempt {
            remaining: Some(ms(51)),
            ..late
        };
        check(Policy::default(), early, Verdict::Retry(ms(50)));
    }

    #[test]
    fn the_other_side_says_when_and_whether() {
        let asked = |code, pushback| Attempt {
            pushback: Some(pushback),
            ..attempt(code, 1, 2)
        };
        let policy = Policy::default();
        let (after, never) = (Pushback::After(ms(70)), Pushback::Never);
        check(
            policy,
            asked(Code::Unavailable, after),
            Verdict::Retry(ms(70)),
        );
        check(
            policy,
            asked(Code::Overloaded, after),
            Verdict::Retry(ms(70)),
        );
        check(policy, asked(Code::Unavailable, never), Verdict::GiveUp);
        check(policy, asked(Code::Overloaded, never), Verdict::GiveUp);
        check(policy, asked(Code::ExecutorFailed, after), Verdict::GiveUp);
    }
}
