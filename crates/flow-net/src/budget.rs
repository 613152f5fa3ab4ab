//! How many tries a node's calls may have besides their first. Pure: the present is an argument.
//!
//! An executor that is sick answers many calls with "try again". If each were tried again as often as its
//! policy allows, a sick executor would get several times the load of a healthy one. So tries are saved
//! up: each call earns a fifth of one, and time earns a few, or else a node that is called rarely would
//! never have any.
//!
//! This is about executors that answer. What was lost with a replica that died costs nothing here: it goes
//! to the others, and the dead one rests.

use std::time::{Duration, Instant};

/// Calls that earn one further try: a sick executor gets a fifth more than its calls.
const CALLS_PER_TRY: u32 = 5;

/// Tries that calls may have earned and not used; they are for a moment of bad luck, not for an hour.
const EARNED_MAX: u32 = 100;

/// Time earns a try as often as this, up to [`GIVEN_MAX`]: enough for a node that is called now and then.
const GIVEN_EVERY: Duration = Duration::from_millis(100);
const GIVEN_MAX: u32 = 10;

/// Tries that are left.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In parts of [`CALLS_PER_TRY`].
    earned: u32,
    given: u32,
    /// Until when time has been counted.
    counted: Instant,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            earned: 0,
            given: GIVEN_MAX,
            counted: now,
        }
    }

    /// Somebody makes a call.
    pub(crate) fn earn(&mut self) {
        self.earned = (self.earned + 1).min(EARNED_MAX * CALLS_PER_TRY);
    }

    /// Takes one try; false if there is none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.count_time(now);
        if self.earned >= CALLS_PER_TRY {
            self.earned -= CALLS_PER_TRY;
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
        let tries = u32::try_from(passed / GIVEN_EVERY.as_nanos()).unwrap_or(u32::MAX);
        if tries >= GIVEN_MAX - self.given {
            self.given = GIVEN_MAX;
            self.counted = now;
        } else {
            self.given += tries;
            // What is left of the time counts towards the next try.
            self.counted += GIVEN_EVERY * tries;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &mut Budget, now: Instant) -> u32 {
        (0..).take_while(|_| budget.take(now)).fold(0, |n, _| n + 1)
    }

    #[test]
    fn a_sick_executor_gets_a_fifth_more_than_its_calls() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        assert_eq!(taken(&mut budget, now), GIVEN_MAX);
        let mut tries = 0;
        for _ in 0..1000 {
            budget.earn();
            tries += u32::from(budget.take(now));
        }
        assert_eq!(tries, 200);
    }

    #[test]
    fn what_was_earned_is_kept_up_to_a_limit() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!(taken(&mut budget, now), EARNED_MAX + GIVEN_MAX);
    }

    #[test]
    fn time_gives_a_few_tries_to_those_who_call_rarely() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        taken(&mut budget, now);
        let after = |ms| now + Duration::from_millis(ms);
        assert!(!budget.take(after(99)));
        assert!(budget.take(after(100)));
        assert!(!budget.take(after(150)));
        assert_eq!(taken(&mut budget, after(250)), 1);
        assert_eq!(taken(&mut budget, after(60_000)), GIVEN_MAX);
    }
}
