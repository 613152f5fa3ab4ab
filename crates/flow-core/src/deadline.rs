//! Deadlines of requests.

use std::time::{Duration, Instant};

/// The time until which the caller of a request waits for the reply.
///
/// Created once, where a request enters, and only shortened afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No deadline: the caller waits forever.
    pub const NEVER: Self = Self(None);

    /// `limit` after `now`; no deadline if there is no limit, or if it is beyond the clock's range.
    #[must_use]
    pub fn after(now: Instant, limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| now.checked_add(limit)))
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn or_earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Self(Some(a.min(b))),
            (a, b) => Self(a.or(b)),
        }
    }

    /// The time, if there is a deadline.
    #[must_use]
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// The time left at `now`: zero once the deadline has passed, `None` if there is none.
    #[must_use]
    pub fn remaining(self, now: Instant) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(now))
    }

    /// Whether the deadline has passed at `now`.
    #[must_use]
    pub fn has_passed(self, now: Instant) -> bool {
        self.0.is_some_and(|end| end <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_deadline_counts() {
        let now = Instant::now();
        let (short, long) = (Duration::from_millis(5), Duration::from_millis(9));
        let (short, long) = (
            Deadline::after(now, Some(short)),
            Deadline::after(now, Some(long)),
        );
        assert_eq!(short.or_earlier(long), short);
        assert_eq!(long.or_earlier(short), short);
        assert_eq!(Deadline::NEVER.or_earlier(short), short);
        assert_eq!(short.or_earlier(Deadline::NEVER), short);
    }

    #[test]
    fn a_deadline_has_passed_at_its_exact_time() {
        let now = Instant::now();
        let deadline = Deadline::after(now, Some(Duration::from_millis(5)));
        assert!(!deadline.has_passed(now + Duration::from_millis(4)));
        assert!(deadline.has_passed(now + Duration::from_millis(5)));
        assert_eq!(
            deadline.remaining(now + Duration::from_millis(9)),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn a_limit_beyond_the_clocks_range_sets_no_deadline() {
        assert_eq!(
            Deadline::after(Instant::now(), Some(Duration::MAX)),
            Deadline::NEVER
        );
    }
}
