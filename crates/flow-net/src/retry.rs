//! Decides whether a failed call is retried. Pure: no clock, no randomness.
//!
//! By default a call is retried only if it certainly did not run: the connection could not be made, or the server
//! said that it is unavailable. A call that may have run (the connection broke, the replica died) is retried only if
//! the flow says that it is idempotent. A failure of the executor's own code is an answer and never retried, and
//! neither is a call past its deadline.
//!
//! A request that was in progress in two processes that were lost is not tried again, idempotent or not: it may be what
//! ends them.
//!
//! A server may ask for a wait before the next try, or for no further try (push-back). A call that a busy server
//! refused is retried if the server names a time, and not a long one.

use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::Code;

/// Wait before the first retry on the same replica; doubled for each further one.
const WAIT_FIRST: Duration = Duration::from_millis(50);

/// Longest wait between two tries.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest wait that a server may ask for. A call whose server wants a longer one fails at once: its caller can wait, too,
/// and meanwhile the call holds memory and its place.
const PUSHBACK_MAX: Duration = Duration::from_secs(10);

/// Default number of retries, or one for each replica if there are more replicas. With the waits above, a single
/// replica has 2.5 s to come back: restarts take 0.2 s to 0.7 s, and longer on a busy machine.
const RETRIES_DEFAULT: u32 = 6;

/// Processes that may be lost while a request is in progress there. A third try would end a third one.
pub const LOST_MAX: u32 = 2;

/// How often calls are retried, and which ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Most retries of a call; `None` for the default, which depends on the number of replicas.
    pub retries: Option<u32>,
    /// Whether running a request twice does no harm.
    pub idempotent: bool,
}

/// A failed try.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// How it failed.
    pub code: Code,
    /// Tries so far, including this one.
    pub tries: u32,
    /// Those of them that ended because the process, or the connection to it, was lost.
    pub lost: u32,
    /// Number of replicas.
    pub replicas: NonZeroUsize,
    /// Time until the deadline, if there is one.
    pub remaining: Option<Duration>,
    /// What the server said of further tries.
    pub pushback: Option<Pushback>,
}

/// What a server says of retries when it did not do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushback {
    /// Not before this time has passed.
    After(Duration),
    /// Not at all.
    Never,
}

/// What follows a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Another try, after this time.
    Retry(Duration),
    /// The call fails.
    GiveUp,
}

/// Decides what follows a failed try.
#[must_use]
pub fn decide(policy: Policy, attempt: Attempt) -> RetryDecision {
    let retryable = match attempt.code {
        Code::Unavailable => true,
        Code::Lost => policy.idempotent && attempt.lost < LOST_MAX,
        // Refused before it ran. A server that names no time does not want a retry.
        Code::Overloaded => matches!(attempt.pushback, Some(Pushback::After(_))),
        _ => false,
    };
    let replicas = u32::try_from(attempt.replicas.get()).unwrap_or(u32::MAX);
    let allowed = policy
        .retries
        .unwrap_or_else(|| replicas.max(RETRIES_DEFAULT));
    if !retryable || attempt.tries > allowed {
        return RetryDecision::GiveUp;
    }
    let wait = match attempt.pushback {
        None => wait(attempt.tries, replicas),
        Some(Pushback::After(wait)) if wait <= PUSHBACK_MAX => wait,
        Some(Pushback::After(_) | Pushback::Never) => return RetryDecision::GiveUp,
    };
    let too_late = attempt.remaining.is_some_and(|left| left <= wait);
    if too_late {
        RetryDecision::GiveUp
    } else {
        RetryDecision::Retry(wait)
    }
}

/// The wait before the next try: none while there are replicas that were not tried yet.
fn wait(tries: u32, replicas: u32) -> Duration {
    match tries.checked_sub(replicas) {
        None => Duration::ZERO,
        Some(rounds) => WAIT_FIRST.saturating_mul(1 << rounds.min(10)).min(WAIT_MAX),
    }
}

#[cfg(test)]
mod property_tests;
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
            lost: u32::from(code == Code::Lost),
            replicas,
            remaining: None,
            pushback: None,
        }
    }

    #[track_caller]
    fn check(policy: Policy, attempt: Attempt, expected: RetryDecision) {
        assert_eq!(decide(policy, attempt), expected);
    }

    #[test]
    fn a_call_that_did_not_run_is_retried() {
        let policy = Policy::default();
        check(
            policy,
            attempt(Code::Unavailable, 1, 2),
            RetryDecision::Retry(Duration::ZERO),
        );
        check(
            policy,
            attempt(Code::Unavailable, 1, 1),
            RetryDecision::Retry(ms(50)),
        );
    }

    #[test]
    fn a_call_that_may_have_run_is_retried_only_if_it_is_idempotent() {
        let idempotent = Policy {
            idempotent: true,
            ..Policy::default()
        };
        check(
            Policy::default(),
            attempt(Code::Lost, 1, 2),
            RetryDecision::GiveUp,
        );
        check(
            idempotent,
            attempt(Code::Lost, 1, 2),
            RetryDecision::Retry(Duration::ZERO),
        );
    }

    #[test]
    fn a_call_that_two_processes_did_not_survive_is_not_retried() {
        let idempotent = Policy {
            idempotent: true,
            ..Policy::default()
        };
        let lost = |lost| Attempt {
            lost,
            ..attempt(Code::Lost, 5, 9)
        };
        check(idempotent, lost(1), RetryDecision::Retry(Duration::ZERO));
        check(idempotent, lost(2), RetryDecision::GiveUp);
    }

    #[test]
    fn answers_are_never_retried() {
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
            check(idempotent, attempt(code, 1, 2), RetryDecision::GiveUp);
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
            RetryDecision::Retry(Duration::ZERO),
        );
        check(
            policy,
            attempt(Code::Unavailable, 3, 9),
            RetryDecision::GiveUp,
        );
        let never = Policy {
            retries: Some(0),
            ..Policy::default()
        };
        check(
            never,
            attempt(Code::Unavailable, 1, 9),
            RetryDecision::GiveUp,
        );
    }

    #[test]
    fn by_default_each_replica_is_tried_once() {
        check(
            Policy::default(),
            attempt(Code::Unavailable, 9, 9),
            RetryDecision::Retry(ms(50)),
        );
        check(
            Policy::default(),
            attempt(Code::Unavailable, 10, 9),
            RetryDecision::GiveUp,
        );
    }

    #[test]
    fn waits_double_when_all_replicas_have_been_tried() {
        let waits = [(1, 50), (2, 100), (3, 200), (4, 400), (5, 800), (6, 1000)];
        for (tries, wait) in waits {
            check(
                Policy::default(),
                attempt(Code::Unavailable, tries, 1),
                RetryDecision::Retry(ms(wait)),
            );
        }
    }

    #[test]
    fn no_retry_begins_after_the_deadline() {
        let late = Attempt {
            remaining: Some(ms(50)),
            ..attempt(Code::Unavailable, 1, 1)
        };
        check(Policy::default(), late, RetryDecision::GiveUp);
        let early = Attempt {
            remaining: Some(ms(51)),
            ..late
        };
        check(Policy::default(), early, RetryDecision::Retry(ms(50)));
    }

    #[test]
    fn a_server_decides_when_and_whether_a_call_is_retried() {
        let asked = |code, pushback| Attempt {
            pushback: Some(pushback),
            ..attempt(code, 1, 2)
        };
        let policy = Policy::default();
        let (after, never) = (Pushback::After(ms(70)), Pushback::Never);
        check(
            policy,
            asked(Code::Unavailable, after),
            RetryDecision::Retry(ms(70)),
        );
        check(
            policy,
            asked(Code::Overloaded, after),
            RetryDecision::Retry(ms(70)),
        );
        check(
            policy,
            asked(Code::Unavailable, never),
            RetryDecision::GiveUp,
        );
        check(
            policy,
            asked(Code::Overloaded, never),
            RetryDecision::GiveUp,
        );
        check(
            policy,
            asked(Code::ExecutorFailed, after),
            RetryDecision::GiveUp,
        );
    }

    #[test]
    fn a_server_that_asks_for_a_long_wait_gets_no_further_try() {
        let asked = |wait| Attempt {
            pushback: Some(Pushback::After(wait)),
            ..attempt(Code::Unavailable, 1, 2)
        };
        let policy = Policy::default();
        check(
            policy,
            asked(PUSHBACK_MAX),
            RetryDecision::Retry(PUSHBACK_MAX),
        );
        let longer = PUSHBACK_MAX + ms(1);
        check(policy, asked(longer), RetryDecision::GiveUp);
    }
}
