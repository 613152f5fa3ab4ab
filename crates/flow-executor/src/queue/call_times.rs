//! How long calls take, by method and size, so that short ones are known before they run.
//!
//! Pure, but for atomics: times are arguments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::endpoint_table::MethodIdx;

/// Sizes of requests, each up to twice the one before.
const SIZES: usize = usize::BITS as usize;

/// A quicker call lowers the expected time by this part of the difference. A slower one raises it at once.
const FALL: u64 = 8;

/// What calls are expected to take.
#[derive(Debug)]
pub(crate) struct CallTimes {
    methods: Vec<[AtomicU64; SIZES]>,
    /// Requests of this many bytes or more have no expected time.
    below: usize,
}

impl CallTimes {
    /// The times of this many methods, none of which is known yet. Requests of `below` bytes or more never have one.
    pub(crate) fn new(methods: usize, below: usize) -> Self {
        let unknown = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            methods: (0..methods).map(|_| unknown()).collect(),
            below,
        }
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
        if bytes >= self.below {
            return None;
        }
        let size = bytes.max(1).ilog2();
        self.methods.get(method.0)?.get(size as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: MethodIdx = MethodIdx(1);
    const MICRO: Duration = Duration::from_micros(1);
    const KIB: usize = 1 << 10;

    #[test]
    fn nothing_is_expected_of_calls_that_never_ran() {
        let times = CallTimes::new(2, 4 * KIB);
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
        let times = CallTimes::new(2, 4 * KIB);
        for bytes in [2 * KIB, 4 * KIB - 1, 4 * KIB, usize::MAX] {
            times.observe((METHOD, bytes), MICRO);
        }
        assert_eq!(times.expected(METHOD, 2 * KIB), Some(MICRO));
        assert_eq!(times.expected(METHOD, 4 * KIB), None);
        assert_eq!(times.expected(METHOD, usize::MAX), None);
    }

    #[test]
    fn without_a_limit_every_size_has_a_time() {
        let times = CallTimes::new(2, usize::MAX);
        times.observe((METHOD, 4 * KIB), MICRO);
        times.observe((METHOD, usize::MAX - 1), 2 * MICRO);
        assert_eq!(times.expected(METHOD, 8 * KIB - 1), Some(MICRO));
        assert_eq!(times.expected(METHOD, usize::MAX - 1), Some(2 * MICRO));
        assert_eq!(times.expected(METHOD, 8 * KIB), None);
    }

    #[test]
    fn an_empty_call_has_a_size() {
        let times = CallTimes::new(2, 4 * KIB);
        times.observe((METHOD, 0), Duration::ZERO);
        assert_eq!(times.expected(METHOD, 1), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn a_slow_call_counts_at_once_and_quick_ones_by_and_by() {
        let times = CallTimes::new(2, 4 * KIB);
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
