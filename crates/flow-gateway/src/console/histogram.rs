//! How long requests took, in buckets. Pure.

use std::time::Duration;

/// Number of buckets. Each bound is half as large again as the one before, so a quantile is off by a fifth at most.
const BUCKETS: usize = 32;

/// The first bound: a gateway with an executor that does nothing needs this long.
const FIRST_US: u32 = 100;

/// Upper bounds in microseconds, from 0.1 ms to 19 s; the last bucket takes what is longer.
const BOUNDS_US: [u32; BUCKETS - 1] = bounds();

const fn bounds() -> [u32; BUCKETS - 1] {
    let mut bounds = [FIRST_US; BUCKETS - 1];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] / 2 * 3;
        at += 1;
    }
    bounds
}

/// How many requests took how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Histogram([u32; BUCKETS]);

impl Histogram {
    pub(super) fn add(&mut self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        self.0[bucket] = self.0[bucket].saturating_add(1);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = own.saturating_add(*other);
        }
    }

    /// The time within which this part of the requests was done, in milliseconds; `None` without requests.
    pub(super) fn quantile_ms(&self, part: f64) -> Option<f64> {
        let total: f64 = self.0.iter().map(|it| f64::from(*it)).sum();
        if total == 0.0 {
            return None;
        }
        let wanted = part * total;
        let (mut before, mut lower) = (0.0, 0.0);
        for (count, bound) in self.0.iter().zip(BOUNDS_US) {
            let count = f64::from(*count);
            let upper = f64::from(bound);
            if count > 0.0 && before + count >= wanted {
                let share = ((wanted - before) / count).clamp(0.0, 1.0);
                return Some((lower + (upper - lower) * share) / 1e3);
            }
            before += count;
            lower = upper;
        }
        Some(lower / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_reach_from_a_tenth_of_a_millisecond_to_many_seconds() {
        assert_eq!(BOUNDS_US[..4], [100, 150, 225, 336]);
        assert!(BOUNDS_US.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(BOUNDS_US[BUCKETS - 2] > 15_000_000);
    }

    #[test]
    fn a_quantile_is_within_a_fifth_of_the_truth() {
        let mut histogram = Histogram::default();
        for ms in 1..=1000 {
            histogram.add(Duration::from_millis(ms));
        }
        for (part, truth) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0)] {
            let found = histogram.quantile_ms(part).unwrap();
            assert!((found / truth - 1.0).abs() < 0.2, "{part}: {found}");
        }
    }

    #[test]
    fn extremes_have_a_bucket_and_nothing_has_no_quantile() {
        assert_eq!(Histogram::default().quantile_ms(0.5), None);
        let mut histogram = Histogram::default();
        histogram.add(Duration::ZERO);
        assert!(histogram.quantile_ms(1.0).unwrap() <= 0.1);
        histogram.add(Duration::from_secs(100_000));
        assert!(histogram.quantile_ms(0.99).unwrap() > 15_000.0);
    }
}
