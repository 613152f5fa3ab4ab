//! Decides when a request that has not been answered is also sent to another replica. Pure: durations are arguments.
//!
//! A replica that pauses now and then delays a few requests by much. The same request at another replica would be answered
//! long before. If all replicas are slow, such hedges would only add to their load, so they have a budget: each call
//! earns a twentieth of one.

use std::num::NonZeroU8;
use std::time::Duration;

/// Calls that earn one hedge: a node gets at most a twentieth more calls.
const CALLS_PER_HEDGE: u32 = 20;

/// Most hedges that are earned and not used: the requests in progress at a replica when it pauses.
const EARNED_MAX: u32 = 10;

/// Calls whose durations are remembered for a percentile.
const REMEMBERED: usize = 200;

/// Calls below which no percentile is known.
const NEEDED: usize = 20;

/// After what time a request is also sent to another replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeAfter {
    /// This time.
    Time(Duration),
    /// The time in which this percentage of calls is answered.
    Percentile(NonZeroU8),
}

/// The hedges of a node.
#[derive(Debug)]
pub(super) struct Hedges {
    after: HedgeAfter,
    /// Calls that have earned hedges and not yet spent them.
    earned: u32,
    last: Vec<Duration>,
    /// All calls that were answered.
    answered: usize,
    /// The percentile, computed from time to time.
    percentile: Option<Duration>,
}

impl Hedges {
    pub(super) fn new(after: HedgeAfter) -> Self {
        Self {
            after,
            // One, so that a node that is called rarely has any.
            earned: CALLS_PER_HEDGE,
            last: Vec::new(),
            answered: 0,
            percentile: None,
        }
    }

    /// Counts a call.
    pub(super) fn earn(&mut self) {
        self.earned = (self.earned + 1).min(EARNED_MAX * CALLS_PER_HEDGE);
    }

    /// Takes a hedge; false if none is left.
    pub(super) fn take(&mut self) -> bool {
        let left = self.earned.checked_sub(CALLS_PER_HEDGE);
        self.earned = left.unwrap_or(self.earned);
        left.is_some()
    }

    /// Notes after what time a call was answered.
    pub(super) fn answered_after(&mut self, took: Duration) {
        let HedgeAfter::Percentile(percent) = self.after else {
            return;
        };
        if self.last.len() < REMEMBERED {
            self.last.push(took);
        } else {
            self.last[self.answered % REMEMBERED] = took;
        }
        self.answered += 1;
        if self.last.len() >= NEEDED && self.answered.is_multiple_of(NEEDED) {
            let mut sorted = self.last.clone();
            let at = sorted.len() * usize::from(percent.get()) / 100;
            let (_, percentile, _) = sorted.select_nth_unstable(at.min(self.last.len() - 1));
            self.percentile = Some(*percentile);
        }
    }

    /// After what time a request is hedged; `None` while that is not known.
    pub(super) fn after(&self) -> Option<Duration> {
        match self.after {
            HedgeAfter::Time(after) => Some(after),
            HedgeAfter::Percentile(_) => self.percentile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn at_most_one_in_twenty_calls_is_hedged() {
        let mut hedges = Hedges::new(HedgeAfter::Time(ms(1)));
        assert!(hedges.take() && !hedges.take());
        let mut taken = 0;
        for _ in 0..1000 {
            hedges.earn();
            taken += u32::from(hedges.take());
        }
        assert_eq!(taken, 50);
    }

    #[test]
    fn earned_hedges_are_kept_up_to_a_limit() {
        let mut hedges = Hedges::new(HedgeAfter::Time(ms(1)));
        (0..1000).for_each(|_| hedges.earn());
        let taken = (0..100).filter(|_| hedges.take()).count();
        assert_eq!(taken, EARNED_MAX as usize);
    }

    #[test]
    fn a_percentile_is_known_after_twenty_calls_and_follows_the_last_two_hundred() {
        let percent = NonZeroU8::new(95).unwrap();
        let mut hedges = Hedges::new(HedgeAfter::Percentile(percent));
        for took in 1..20 {
            hedges.answered_after(ms(took));
        }
        assert_eq!(hedges.after(), None);
        hedges.answered_after(ms(20));
        assert_eq!(hedges.after(), Some(ms(20)));
        for took in 1..=200 {
            hedges.answered_after(ms(took));
        }
        assert_eq!(hedges.after(), Some(ms(191)));
        for _ in 0..200 {
            hedges.answered_after(ms(3));
        }
        assert_eq!(hedges.after(), Some(ms(3)));
    }

    #[test]
    fn a_fixed_hedge_delay_ignores_response_times() {
        let mut hedges = Hedges::new(HedgeAfter::Time(ms(50)));
        (0..500).for_each(|_| hedges.answered_after(ms(900)));
        assert_eq!(hedges.after(), Some(ms(50)));
    }
}
