//! The kinds of metrics: atomics that many threads change, and that are read now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How often something happened. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

/// How many there are now. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicI64>);

/// A sum of numbers that are not negative. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FloatCounter(Float);

/// A number that may also become smaller. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FloatGauge(Float);

/// A number that many threads change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Float(Arc<AtomicU64>);

/// How often something happened, and the sum of its durations. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct DurationSummary(Arc<Summary>);

/// How many messages there were, and the sum of their sizes in bytes. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct SizeSummary(Arc<Summary>);

/// A count and a sum of whole numbers: nanoseconds, bytes. The sum wraps around after centuries of work, which
/// Prometheus takes for a restart.
#[derive(Debug, Default)]
struct Summary {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Summary {
    fn add(&self, value: u64) {
        self.sum.fetch_add(value, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.count.load(Relaxed), self.sum.load(Relaxed))
    }
}

impl Counter {
    /// Adds to the count.
    pub fn add(&self, times: usize) {
        self.0.fetch_add(times as u64, Relaxed);
    }

    /// The count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Gauge {
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Subtracts one.
    pub fn decrement(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// The current number.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

impl Float {
    pub(crate) fn add(&self, number: f64) {
        let sum = |bits: u64| Some((f64::from_bits(bits) + number).to_bits());
        let added = self.0.fetch_update(Relaxed, Relaxed, sum);
        debug_assert!(added.is_ok(), "there is always a sum");
    }

    pub(crate) fn set(&self, number: f64) {
        self.0.store(number.to_bits(), Relaxed);
    }

    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

impl FloatCounter {
    /// Adds to the sum. A number that is negative or not finite is ignored.
    pub fn add(&self, number: f64) {
        if number.is_finite() && 0.0 <= number {
            self.0.add(number);
        }
    }

    /// The sum.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

impl FloatGauge {
    /// Adds to the number. One that is not finite is ignored.
    pub fn add(&self, number: f64) {
        if number.is_finite() {
            self.0.add(number);
        }
    }

    /// Changes the number.
    pub fn set(&self, number: f64) {
        self.0.set(number);
    }

    /// The current number.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

impl DurationSummary {
    /// Adds a duration.
    pub fn observe(&self, took: Duration) {
        // Nothing takes centuries, so this never saturates.
        self.0
            .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The count and the sum.
    #[must_use]
    pub fn get(&self) -> (u64, Duration) {
        let (count, sum) = self.0.read();
        (count, Duration::from_nanos(sum))
    }
}

impl SizeSummary {
    /// Adds a message of this size.
    pub fn observe(&self, bytes: usize) {
        self.0.add(bytes as u64);
    }

    /// The count and the sum.
    #[must_use]
    pub fn get(&self) -> (u64, u64) {
        self.0.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_of_concurrent_threads_is_lost() {
        let (counter, gauge, sizes) = <(Counter, Gauge, SizeSummary)>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.add(2);
                        gauge.increment();
                        sizes.observe(3);
                        gauge.decrement();
                    }
                });
            }
        });
        assert_eq!((counter.get(), gauge.get()), (8_000, 0));
        assert_eq!(sizes.get(), (4_000, 12_000));
    }

    #[test]
    fn no_fraction_of_concurrent_threads_is_lost() {
        let (counter, gauge) = <(FloatCounter, FloatGauge)>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.add(0.5);
                        gauge.add(0.25);
                        gauge.add(-0.25);
                    }
                });
            }
        });
        assert_eq!((counter.get(), gauge.get()), (2_000.0, 0.0));
        counter.add(-1.0);
        counter.add(f64::NAN);
        gauge.add(f64::INFINITY);
        assert_eq!((counter.get(), gauge.get()), (2_000.0, 0.0));
        gauge.set(7.5);
        assert_eq!(gauge.get(), 7.5);
    }
}
