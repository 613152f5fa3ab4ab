//! Decides when it is logged that a replica is slow. Pure: times are arguments.

use std::time::{Duration, Instant};

/// Time after which a slow replica is logged. For a shorter time, its requests may just have more to do.
const LOGGED_AFTER: Duration = Duration::from_secs(5);

/// Since when a replica is slow.
#[derive(Debug, Default)]
pub(super) struct Slowness {
    since: Option<Instant>,
    is_logged: bool,
}

impl Slowness {
    /// Notes whether the replica is slow now. Returns what is to be logged: that it is slow, or that it no longer is.
    pub(super) fn note(&mut self, is_slow: bool, now: Instant) -> Option<bool> {
        if !is_slow {
            return std::mem::take(self).is_logged.then_some(false);
        }
        let since = *self.since.get_or_insert(now);
        if self.is_logged || now.saturating_duration_since(since) < LOGGED_AFTER {
            return None;
        }
        self.is_logged = true;
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_slow_for_some_time_is_logged_once_and_its_recovery_too() {
        let begin = Instant::now();
        let mut slowness = Slowness::default();
        let mut note = |is_slow, seconds| {
            let now = begin + Duration::from_secs(seconds);
            slowness.note(is_slow, now)
        };
        assert_eq!(note(true, 0), None);
        assert_eq!(note(true, 4), None);
        assert_eq!(note(true, 5), Some(true));
        assert_eq!(note(true, 60), None);
        assert_eq!(note(false, 61), Some(false));
        assert_eq!(note(false, 62), None);
    }

    #[test]
    fn a_replica_that_is_slow_for_a_moment_is_not_logged() {
        let begin = Instant::now();
        let mut slowness = Slowness::default();
        for seconds in [0, 4, 8, 12] {
            let now = begin + Duration::from_secs(seconds);
            assert_eq!(slowness.note(true, now), None);
            assert_eq!(slowness.note(false, now), None);
        }
    }
}
