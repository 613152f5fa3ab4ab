//! Random numbers that a seed repeats (splitmix64).

use crate::traffic::float;

/// The state of a generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to 1, without 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        f64::from_bits(mixed >> 12 | 1_f64.to_bits()) - 1.0
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
