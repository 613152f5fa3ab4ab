//! Counts durations, with a memory that does not depend on their number.

use std::collections::BTreeMap;
use std::time::Duration;

/// Bits of a duration that are kept: its buckets are 3 % wide.
const BITS: u32 = 5;

/// Durations in buckets whose widths grow with them.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    /// By the smallest number of nanoseconds of a bucket: about 2,000 for all durations there are.
    buckets: BTreeMap<u64, u64>,
    count: u64,
    sum: Duration,
}

impl Histogram {
    pub(super) fn add(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let dropped = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS + 1);
        *self
            .buckets
            .entry((nanos >> dropped) << dropped)
            .or_default() += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum(&self) -> Duration {
        self.sum
    }

    /// The duration that this many of a hundred do not exceed, to 3 %.
    pub(super) fn percentile(&self, percent: u64) -> Duration {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        Duration::from_nanos(found.map_or(0, |(nanos, _)| *nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_percent() {
        let mut all = Histogram::default();
        for ms in 1..=1000 {
            all.add(Duration::from_millis(ms));
        }
        let close = |percent, ms: f64| {
            let found = all.percentile(percent).as_secs_f64() * 1e3;
            assert!((found / ms - 1.0).abs() < 0.035, "{found} is not {ms}");
        };
        close(50, 500.0);
        close(99, 990.0);
        close(100, 1000.0);
        assert_eq!(
            (all.count(), all.sum()),
            (1000, Duration::from_millis(500_500))
        );
    }

    #[test]
    fn no_duration_and_the_longest_are_counted() {
        let mut all = Histogram::default();
        assert_eq!(all.percentile(50), Duration::ZERO);
        all.add(Duration::ZERO);
        all.add(Duration::MAX);
        assert_eq!(all.percentile(50), Duration::ZERO);
        assert!(all.percentile(99) > Duration::from_secs(1 << 33));
    }
}
