//! Limits how many retries the calls of a node may have. Pure: the current time is an argument.
//!
//! An overloaded executor answers many calls with "try again". If each were retried as often as its policy allows,
//! that executor would get several times the load of a healthy one. So retries are earned: each call earns a fifth
//! of one, and time earns a few, because a node that is called rarely would otherwise never have any.
//!
//! This is about executors that answer. Calls that a replica lost when it died are retried on the others
//! without taking from the budget, and the dead one is avoided.

use std::time::{Duration, Instant};

/// Calls that earn one retry: a failing executor gets at most a fifth more calls.
const CALLS_PER_RETRY: u32 = 5;

/// Largest number of earned retries: enough for a short disturbance, not for an hour of failures.
const EARNED_MAX: u32 = 100;

/// Interval at which time gives a retry, up to [`GIVEN_MAX`]: enough for a node that is called rarely.
const GIVEN_EVERY: Duration = Duration::from_millis(100);
const GIVEN_MAX: u32 = 10;

/// The retries that are left.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    /// Calls that have earned retries and not yet spent them.
    earned: u32,
    given: u32,
    /// The time up to which retries have been given.
    counted: Instant,
}

impl RetryBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            earned: 0,
            given: GIVEN_MAX,
            counted: now,
        }
    }

    /// Counts a call.
    pub(crate) fn earn(&mut self) {
        self.earned = (self.earned + 1).min(EARNED_MAX * CALLS_PER_RETRY);
    }

    /// Takes a retry; false if none is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.count_time(now);
        if self.earned >= CALLS_PER_RETRY {
            self.earned -= CALLS_PER_RETRY;
            true
        } else if self.given > 0 {
            self.given -= 1;
            true
        } else {
            false
        }
    }

    fn count_time(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.counted).as_nanos();
        let given = u32::try_from(passed / GIVEN_EVERY.as_nanos()).unwrap_or(u32::MAX);
        if given >= GIVEN_MAX - self.given {
            self.given = GIVEN_MAX;
            self.counted = now;
        } else {
            self.given += given;
            // The rest of the time counts towards the next one.
            self.counted += GIVEN_EVERY * given;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &mut RetryBudget, now: Instant) -> u32 {
        (0..).take_while(|_| budget.take(now)).fold(0, |n, _| n + 1)
    }

    #[test]
    fn a_failing_executor_gets_a_fifth_more_calls() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(now);
        assert_eq!(taken(&mut budget, now), GIVEN_MAX);
        let mut tries = 0;
        for _ in 0..1000 {
            budget.earn();
            tries += u32::from(budget.take(now));
        }
        assert_eq!(tries, 200);
    }

    #[test]
    fn earned_retries_are_kept_up_to_a_limit() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(now);
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!(taken(&mut budget, now), EARNED_MAX + GIVEN_MAX);
    }

    #[test]
    fn time_gives_retries_to_nodes_that_are_called_rarely() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(now);
        taken(&mut budget, now);
        let after = |ms| now + Duration::from_millis(ms);
        assert!(!budget.take(after(99)));
        assert!(budget.take(after(100)));
        assert!(!budget.take(after(150)));
        assert_eq!(taken(&mut budget, after(250)), 1);
        assert_eq!(taken(&mut budget, after(60_000)), GIVEN_MAX);
    }
}
