//! Random numbers, sizes and times, which a seed repeats.

use flow_tests::SplitMix64;

use crate::traffic::float;

/// A source of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// A number from 0 to 1, without 1.
    pub(crate) fn next(&mut self) -> f64 {
        f64::from_bits(self.0.next() >> 12 | 1_f64.to_bits()) - 1.0
    }

    /// One of so many numbers from 0.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is smaller than the number that was given"
    )]
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() * float(count)) as usize
    }

    /// Seconds until the next of Poisson arrivals, so many a second on average.
    pub(crate) fn until_next(&mut self, per_second: f64) -> f64 {
        -(1.0 - self.next()).ln() / per_second
    }
}
