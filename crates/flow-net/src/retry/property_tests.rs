//! What holds for every sequence of failures, whatever the policy, the replicas and the deadline.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// Codes of failures that are answers: the executor or the gateway has decided.
const ANSWERS: [Code; 6] = [
    Code::BadRequest,
    Code::ExecutorFailed,
    Code::DeadlineExceeded,
    Code::Cancelled,
    Code::TooLarge,
    Code::Internal,
];

/// How one try fails, and how long it takes.
#[derive(Debug, Clone, Copy)]
struct FailedTry {
    code: Code,
    pushback: Option<Pushback>,
    takes: Duration,
}

fn codes() -> impl Strategy<Value = Code> {
    prop_oneof![
        6 => Just(Code::Unavailable),
        3 => Just(Code::Lost),
        2 => Just(Code::Overloaded),
        1 => proptest::sample::select(&ANSWERS[..]),
    ]
}

fn times() -> impl Strategy<Value = Duration> {
    (0..3_000_u64).prop_map(Duration::from_millis)
}

fn failed_tries() -> impl Strategy<Value = FailedTry> {
    let pushback = prop_oneof![
        6 => Just(None),
        3 => times().prop_map(|time| Some(Pushback::After(time))),
        1 => Just(Some(Pushback::Never)),
    ];
    (codes(), pushback, times()).prop_map(|(code, pushback, takes)| FailedTry {
        code,
        pushback,
        takes,
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    (option::of(0..20_u32), any::<bool>()).prop_map(|(retries, idempotent)| Policy {
        retries,
        idempotent,
    })
}

/// A call whose tries fail one after another.
#[derive(Debug, Clone)]
struct FailingCall {
    policy: Policy,
    replicas: NonZeroUsize,
    /// Time from the first try on.
    deadline: Option<Duration>,
    tries: Vec<FailedTry>,
}

fn calls() -> impl Strategy<Value = FailingCall> {
    let replicas = (1..12_usize).prop_map(|it| NonZeroUsize::new(it).expect("it is not zero"));
    let parts = (
        policies(),
        replicas,
        option::of(times()),
        vec(failed_tries(), 1..30),
    );
    parts.prop_map(|(policy, replicas, deadline, tries)| FailingCall {
        policy,
        replicas,
        deadline,
        tries,
    })
}

/// A retry: the try before it, and when it began.
#[derive(Debug, Clone, Copy)]
struct Retried {
    after: FailedTry,
    wait: Duration,
    begins: Duration,
}

impl FailingCall {
    /// The retries until the call is given up.
    fn retries(&self) -> Vec<Retried> {
        let mut now = Duration::ZERO;
        let mut lost = 0;
        let mut retries = Vec::new();
        for (tries, after) in (1..).zip(&self.tries) {
            now += after.takes;
            lost += u32::from(after.code == Code::Lost);
            let attempt = Attempt {
                code: after.code,
                tries,
                lost,
                replicas: self.replicas,
                remaining: self.deadline.map(|end| end.saturating_sub(now)),
                pushback: after.pushback,
            };
            let RetryDecision::Retry(wait) = decide(self.policy, attempt) else {
                break;
            };
            now += wait;
            retries.push(Retried {
                after: *after,
                wait,
                begins: now,
            });
        }
        retries
    }
}

proptest! {
    #[test]
    fn no_try_begins_at_or_after_the_deadline(call in calls()) {
        for retry in call.retries() {
            if let Some(deadline) = call.deadline {
                prop_assert!(retry.begins < deadline, "{retry:?}");
            }
        }
    }

    #[test]
    fn there_are_no_more_retries_than_the_policy_allows(call in calls()) {
        let by_default = u32::try_from(call.replicas.get()).unwrap().max(RETRIES_DEFAULT);
        let allowed = call.policy.retries.unwrap_or(by_default);
        prop_assert!(call.retries().len() <= allowed as usize);
    }

    #[test]
    fn no_try_follows_an_answer_or_a_refusal_of_retries(call in calls()) {
        for retry in call.retries() {
            prop_assert!(!ANSWERS.contains(&retry.after.code), "{retry:?}");
            prop_assert!(retry.after.pushback != Some(Pushback::Never), "{retry:?}");
        }
    }

    #[test]
    fn a_call_that_may_have_run_is_tried_again_once_and_only_if_it_is_idempotent(call in calls()) {
        let retries = call.retries();
        let lost = retries.iter().filter(|it| it.after.code == Code::Lost).count();
        prop_assert!(lost <= usize::from(call.policy.idempotent));
    }

    #[test]
    fn waits_grow_from_the_first_to_the_longest_once_each_replica_was_tried(call in calls()) {
        let mut before = Duration::ZERO;
        for (number, retry) in (1..).zip(call.retries()) {
            if let Some(pushback) = retry.after.pushback {
                prop_assert_eq!(pushback, Pushback::After(retry.wait));
                continue;
            }
            if number < call.replicas.get() {
                prop_assert_eq!(retry.wait, Duration::ZERO);
                continue;
            }
            prop_assert!((WAIT_FIRST..=WAIT_MAX).contains(&retry.wait), "{retry:?}");
            prop_assert!(before <= retry.wait, "{before:?}, then {retry:?}");
            before = retry.wait;
        }
    }
}
