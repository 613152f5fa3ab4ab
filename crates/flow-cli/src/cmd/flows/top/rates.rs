//! Rates and latencies between two samples. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use flow_gateway::Counts;

/// Buckets of durations in each power of two, as `flow_metrics::DurationHistogram::buckets` has them.
const BUCKETS_PER_OCTAVE: f64 = 8.0;

/// Requests of the last seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) per_second: f64,
    pub(super) failed_per_second: f64,
    pub(super) p50: Option<Duration>,
    pub(super) p99: Option<Duration>,
}

/// The difference of the counts; `None` if they were reset.
pub(super) fn growth(before: &Counts, now: &Counts) -> Option<Counts> {
    let mut durations = now.durations.clone();
    for (bucket, count) in &before.durations {
        let now = durations.get_mut(bucket)?;
        *now = now.checked_sub(*count)?;
    }
    Some(Counts {
        failed: now.failed.checked_sub(before.failed)?,
        durations,
    })
}

/// Adds what was counted elsewhere.
pub(super) fn add(sum: &mut Counts, counts: &Counts) {
    sum.failed += counts.failed;
    for (bucket, count) in &counts.durations {
        *sum.durations.entry(*bucket).or_default() += count;
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a flow needs centuries for that many requests"
)]
impl Rates {
    pub(super) fn of(counts: &Counts, seconds: f64) -> Self {
        let all: u64 = counts.durations.values().sum();
        // Two samples at the same moment have nothing between them.
        let per_second = |count: u64| count as f64 / seconds.max(f64::EPSILON);
        Self {
            per_second: per_second(all),
            failed_per_second: per_second(counts.failed),
            p50: quantile(&counts.durations, 0.5),
            p99: quantile(&counts.durations, 0.99),
        }
    }
}

/// The time within which this part of the requests was done; `None` without requests.
#[allow(
    clippy::cast_precision_loss,
    reason = "a flow needs centuries for that many requests"
)]
fn quantile(durations: &BTreeMap<i32, u64>, part: f64) -> Option<Duration> {
    let all: u64 = durations.values().sum();
    let wanted = part * all as f64;
    let mut before = 0.0;
    for (bucket, count) in durations {
        let count = *count as f64;
        if count > 0.0 && before + count >= wanted {
            let share = (wanted - before) / count;
            let upper = f64::from(*bucket) / BUCKETS_PER_OCTAVE;
            let seconds = (upper - (1.0 - share) / BUCKETS_PER_OCTAVE).exp2();
            return Duration::try_from_secs_f64(seconds).ok();
        }
        before += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(failed: u64, durations: &[(i32, u64)]) -> Counts {
        let durations = durations.iter().copied().collect();
        Counts { failed, durations }
    }

    #[test]
    fn a_difference_counts_what_happened_between_two_samples() {
        let before = counts(1, &[(-8, 3), (0, 1)]);
        let now = counts(3, &[(-8, 5), (0, 1), (8, 4)]);
        let grown = growth(&before, &now).unwrap();
        assert_eq!(grown, counts(2, &[(-8, 2), (0, 0), (8, 4)]));
        assert_eq!(growth(&Counts::default(), &now), Some(now));
    }

    #[test]
    fn counts_that_began_anew_have_no_difference() {
        let before = counts(0, &[(-8, 3)]);
        assert_eq!(growth(&before, &counts(0, &[(-8, 2)])), None);
        assert_eq!(growth(&before, &counts(0, &[(0, 9)])), None);
        assert_eq!(growth(&counts(1, &[]), &counts(0, &[(0, 9)])), None);
    }

    #[test]
    fn rates_are_per_second_and_quantiles_are_within_their_bucket() {
        let rates = Rates::of(&counts(5, &[(-8, 90), (8, 10)]), 5.0);
        assert!((rates.per_second - 20.0).abs() < 1e-9);
        assert!((rates.failed_per_second - 1.0).abs() < 1e-9);
        let seconds = |it: Option<Duration>| it.unwrap().as_secs_f64();
        // Bucket -8 ends at half a second, bucket 8 at two.
        let p50 = seconds(rates.p50);
        assert!((0.458..=0.5).contains(&p50), "{p50}");
        let p99 = seconds(rates.p99);
        assert!((1.83..=2.0).contains(&p99), "{p99}");
        assert_eq!(Rates::of(&Counts::default(), 5.0).p99, None);
    }
}
