//! The usual response times of a replica. Pure: durations are arguments.
//!
//! The median of the last few calls. One large request among small ones, or one pause, does not change it, and a replica
//! that became slow or recovered is known after a few calls.

use std::time::Duration;

/// Calls that are remembered. A change is known when it took more than half of them.
const REMEMBERED: usize = 9;

/// Calls below which nothing is usual yet.
const NEEDED: usize = 5;

/// How long the last calls of a replica took.
#[derive(Debug, Default)]
pub(super) struct ResponseTimes {
    last: [Duration; REMEMBERED],
    /// All calls so far.
    count: usize,
    usual: Option<Duration>,
}

impl ResponseTimes {
    /// Adds a call, in place of the oldest one.
    pub(super) fn add(&mut self, took: Duration) {
        self.last[self.count % REMEMBERED] = took;
        self.count += 1;
        let known = self.count.min(REMEMBERED);
        if known >= NEEDED {
            let mut sorted = self.last;
            sorted[..known].sort_unstable();
            self.usual = Some(sorted[known / 2]);
        }
    }

    /// How long a call usually takes; `None` after too few calls.
    pub(super) fn usual(&self) -> Option<Duration> {
        self.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(calls: &[u64]) -> Option<u64> {
        let mut times = ResponseTimes::default();
        for &ms in calls {
            times.add(Duration::from_millis(ms));
        }
        let usual = times.usual()?;
        Some(u64::try_from(usual.as_millis()).unwrap())
    }

    #[test]
    fn the_median_of_the_last_calls_is_usual_after_five() {
        assert_eq!(after(&[3, 1, 4, 1]), None);
        assert_eq!(after(&[3, 1, 4, 1, 5]), Some(3));
    }

    #[test]
    fn a_few_long_calls_are_not_usual() {
        assert_eq!(after(&[1, 1, 900, 1, 900, 1, 900, 1, 900]), Some(1));
    }

    #[test]
    fn a_change_is_known_after_five_calls() {
        let changed = |calls| [vec![1; 20], vec![50; calls]].concat();
        assert_eq!(after(&changed(4)), Some(1));
        assert_eq!(after(&changed(5)), Some(50));
    }
}
