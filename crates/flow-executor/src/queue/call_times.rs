//! How long calls take, by method and size, so that short ones are known before they run.
//!
//! Pure, but for atomics: times are arguments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::endpoint_table::MethodIdx;

/// Sizes of requests, each up to twice the one before. The last one is 2 to 4 KiB. Larger requests of one size can hold hundreds of
/// documents or one, so the time of one call would say little about the next, and a client could make a long call seem short.
const SIZES: usize = 12;

/// A quicker call lowers the expected time by this part of the difference. A slower one raises it at once.
const FALL: u64 = 8;

/// What calls are expected to take.
#[derive(Debug)]
pub(crate) struct CallTimes(Vec<[AtomicU64; SIZES]>);

impl CallTimes {
    /// For so many methods, of whose calls nothing is known.
    pub(crate) fn new(methods: usize) -> Self {
        let unknown = || std::array::from_fn(|_| AtomicU64::new(0));
        Self((0..methods).map(|_| unknown()).collect())
    }

    /// What a call takes whose request has this number of bytes. `None` if there was no such call yet, or if it is large.
    pub(crate) fn expected(&self, method: MethodIdx, bytes: usize) -> Option<Duration> {
        match self.nanos(method, bytes)?.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Takes note of a call of a single request.
    pub(crate) fn observe(&self, (method, bytes): (MethodIdx, usize), took: Duration) {
        let Some(expected) = self.nanos(method, bytes) else {
            return;
        };
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let before = expected.load(Ordering::Relaxed);
        let after = match before.checked_sub(took) {
            Some(less) => before - less / FALL,
            None => took,
        };
        expected.store(after, Ordering::Relaxed);
    }

    fn nanos(&self, method: MethodIdx, bytes: usize) -> Option<&AtomicU64> {
        let size = bytes.max(1).ilog2();
        self.0.get(method.0)?.get(size as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: MethodIdx = MethodIdx(1);
    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn nothing_is_expected_of_calls_that_never_ran() {
        let times = CallTimes::new(2);
        times.observe((METHOD, 100), 50 * MICRO);
        assert_eq!(times.expected(METHOD, 100), Some(50 * MICRO));
        assert_eq!(times.expected(METHOD, 65), Some(50 * MICRO));
        assert_eq!(times.expected(METHOD, 63), None);
        assert_eq!(times.expected(METHOD, 128), None);
        assert_eq!(times.expected(MethodIdx(0), 100), None);
        assert_eq!(times.expected(MethodIdx(2), 100), None);
    }

    #[test]
    fn nothing_is_expected_of_large_calls() {
        let times = CallTimes::new(2);
        times.observe((METHOD, 2 << 10), MICRO);
        times.observe((METHOD, (4 << 10) - 1), MICRO);
        times.observe((METHOD, 4 << 10), MICRO);
        times.observe((METHOD, usize::MAX), MICRO);
        assert_eq!(times.expected(METHOD, 2 << 10), Some(MICRO));
        assert_eq!(times.expected(METHOD, 4 << 10), None);
        assert_eq!(times.expected(METHOD, usize::MAX), None);
    }

    #[test]
    fn an_empty_call_has_a_size() {
        let times = CallTimes::new(2);
        times.observe((METHOD, 0), Duration::ZERO);
        assert_eq!(times.expected(METHOD, 1), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn a_slow_call_counts_at_once_and_quick_ones_by_and_by() {
        let times = CallTimes::new(2);
        let observe = |micros: u32| {
            times.observe((METHOD, 100), micros * MICRO);
            times.expected(METHOD, 100).unwrap()
        };
        assert_eq!(observe(80), 80 * MICRO);
        assert_eq!(observe(800), 800 * MICRO);
        assert_eq!(observe(80), 710 * MICRO);
        for _ in 0..100 {
            observe(80);
        }
        let quick = observe(80);
        assert!(quick < 81 * MICRO, "{quick:?}");
    }
}
