//! Limits of a key: requests a second, and documents and tokens a day. The current time is an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// Requests of one key that may come at once after a pause: those of one second, and at least one.
const BURST_SECONDS: f64 = 1.0;

/// How many requests may begin: a bucket that fills with time.
#[derive(Debug, Default)]
pub(super) struct RequestRate {
    /// Requests that may begin, and the time of that count; `None` before the first.
    left: Option<(f64, Instant)>,
}

impl RequestRate {
    /// Takes the place of one request, or says after which time there is one.
    pub(super) fn take(&mut self, per_second: f64, now: Instant) -> Result<(), Duration> {
        let burst = (per_second * BURST_SECONDS).max(1.0);
        let left = self.left.map_or(burst, |(left, since)| {
            let passed = now.saturating_duration_since(since).as_secs_f64();
            (left + passed * per_second).min(burst)
        });
        if left >= 1.0 {
            self.left = Some((left - 1.0, now));
            return Ok(());
        }
        self.left = Some((left, now));
        Err(Duration::try_from_secs_f64((1.0 - left) / per_second).unwrap_or(Duration::MAX))
    }
}

/// What was used on the present day, in UTC.
#[derive(Debug, Default)]
pub(super) struct DayCount {
    day: u64,
    used: u64,
}

impl DayCount {
    /// Counts what is about to be used, unless it would be more than allowed. Then it says when the next day begins.
    pub(super) fn add(&mut self, count: u64, max: u64, now: SystemTime) -> Result<(), Duration> {
        let next_day = self.turn(now);
        let sum = self.used.saturating_add(count);
        if sum > max {
            return Err(next_day);
        }
        self.used = sum;
        Ok(())
    }

    /// Counts what was used, however much it was.
    pub(super) fn note(&mut self, count: u64, now: SystemTime) {
        self.turn(now);
        self.used = self.used.saturating_add(count);
    }

    /// Whether something is left. If not, it says when the next day begins.
    pub(super) fn check(&mut self, max: u64, now: SystemTime) -> Result<(), Duration> {
        let next_day = self.turn(now);
        match self.used < max {
            true => Ok(()),
            false => Err(next_day),
        }
    }

    /// Begins a new day if it is time to, and returns the time until the next.
    fn turn(&mut self, now: SystemTime) -> Duration {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let day = seconds / DAY;
        if self.day != day {
            *self = Self { day, used: 0 };
        }
        Duration::from_secs(DAY - seconds % DAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_a_burst_and_then_its_requests_a_second() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut rate = RequestRate::default();
        for _ in 0..2 {
            assert_eq!(rate.take(2.0, at(0)), Ok(()));
        }
        assert_eq!(rate.take(2.0, at(0)), Err(Duration::from_millis(500)));
        assert_eq!(rate.take(2.0, at(400)), Err(Duration::from_millis(100)));
        assert_eq!(rate.take(2.0, at(500)), Ok(()));
        assert!(rate.take(2.0, at(500)).is_err());
        // A long pause gives no more than a burst.
        for _ in 0..2 {
            assert_eq!(rate.take(2.0, at(60_000)), Ok(()));
        }
        assert!(rate.take(2.0, at(60_000)).is_err());
    }

    #[test]
    fn a_rate_below_one_allows_a_request_now_and_then() {
        let start = Instant::now();
        let mut rate = RequestRate::default();
        assert_eq!(rate.take(0.1, start), Ok(()));
        assert_eq!(rate.take(0.1, start), Err(Duration::from_secs(10)));
    }

    #[test]
    fn documents_are_counted_until_midnight() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(DAY + seconds);
        let mut count = DayCount::default();
        assert_eq!(count.add(6, 10, at(0)), Ok(()));
        assert_eq!(count.add(5, 10, at(DAY - 60)), Err(Duration::from_secs(60)));
        assert_eq!(
            count.add(4, 10, at(DAY - 60)),
            Ok(()),
            "what was refused does not count"
        );
        assert!(count.add(1, 10, at(DAY - 1)).is_err());
        assert_eq!(count.add(10, 10, at(DAY)), Ok(()));
        assert!(count.add(u64::MAX, 10, at(DAY)).is_err());
    }

    #[test]
    fn usage_may_exceed_the_limit_once_and_then_nothing_is_left_until_midnight() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(DAY + seconds);
        let mut count = DayCount::default();
        assert_eq!(count.check(10, at(0)), Ok(()));
        count.note(9, at(0));
        assert_eq!(count.check(10, at(0)), Ok(()), "one is left");
        count.note(9, at(0));
        assert_eq!(count.check(10, at(DAY - 60)), Err(Duration::from_secs(60)));
        assert_eq!(count.check(10, at(DAY)), Ok(()));
        assert!(count.check(0, at(DAY)).is_err());
    }
}
