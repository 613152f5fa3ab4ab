//! Measurements of durations that are in progress.

use std::time::Instant;

use crate::histogram::{DurationHistogram, TraceId};
use crate::metric::DurationSummary;

/// A running measurement of a duration.
#[derive(Debug)]
#[must_use = "the measurement ends when this is dropped"]
pub struct Stopwatch {
    started: Instant,
    summary: Option<DurationSummary>,
    histogram: Option<DurationHistogram>,
    trace: Option<TraceId>,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            summary: None,
            histogram: None,
            trace: None,
        }
    }

    /// The same measurement, whose duration is added to this histogram as well.
    pub fn into_histogram(mut self, histogram: &DurationHistogram) -> Self {
        self.histogram = Some(histogram.clone());
        self
    }

    /// The same measurement, of a request with this trace if it is recorded.
    pub fn traced(mut self, trace: Option<TraceId>) -> Self {
        self.trace = trace;
        self
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        if let Some(summary) = &self.summary {
            summary.observe(took);
        }
        if let Some(histogram) = &self.histogram {
            histogram.observe_traced(took, self.trace);
        }
    }
}

impl DurationSummary {
    /// Measures until the stopwatch is dropped, and then adds the duration, whatever the outcome was.
    pub fn start(&self) -> Stopwatch {
        let mut stopwatch = Stopwatch::start();
        stopwatch.summary = Some(self.clone());
        stopwatch
    }
}

impl DurationHistogram {
    /// Measures until the stopwatch is dropped, and then adds the duration, whatever the outcome was.
    pub fn start(&self) -> Stopwatch {
        Stopwatch::start().into_histogram(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stopwatch_counts_when_it_is_dropped_even_in_a_panic() {
        let durations = DurationSummary::default();
        drop(durations.start());
        let watched = durations.clone();
        let panicked = std::thread::spawn(move || {
            let _stopwatch = watched.start();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.join().is_err());
        let (count, sum) = durations.get();
        assert_eq!(count, 2);
        assert!(sum > Duration::ZERO);
    }

    #[test]
    fn a_stopwatch_can_end_in_a_summary_and_in_a_histogram() {
        let (summary, histogram) = <(DurationSummary, DurationHistogram)>::default();
        drop(histogram.start());
        drop(summary.start().into_histogram(&histogram));
        assert_eq!((summary.get().0, histogram.count()), (1, 2));
    }
}
