//! Limits of a key: requests a second, and documents a day. The current time is an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// Requests of one key that may come at once after a pause: those of one second, and at least one.
const BURST_SECONDS: f64 = 1.0;

/// How many requests may begin: a bucket that fills with time.
#[derive(Debug, Default)]
pub(super) struct RequestRate {
    /// Requests that may begin, and when there were so many; `None` before the first.
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

/// Documents of the present day, in UTC.
#[derive(Debug, Default)]
pub(super) struct DayCount {
    day: u64,
    documents: u64,
}

impl DayCount {
    /// Counts documents, unless there would be more than allowed. Then it says when the next day begins.
    pub(super) fn add(
        &mut self,
        documents: u64,
        max: u64,
        now: SystemTime,
    ) -> Result<(), Duration> {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.day != seconds / DAY {
            *self = Self {
                day: seconds / DAY,
                documents: 0,
            };
        }
        let sum = self.documents.saturating_add(documents);
        if sum > max {
            return Err(Duration::from_secs(DAY - seconds % DAY));
        }
        self.documents = sum;
        Ok(())
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
}
