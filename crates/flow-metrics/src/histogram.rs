//! Histograms of values, for classic and for native histograms of Prometheus.

mod exemplar;
mod layout;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use exemplar::Exemplars;
pub use exemplar::{Exemplar, TraceId};
pub use layout::SCHEMA;
use layout::{COUNTS, CellLayout, DURATIONS, VALUES, ZERO_BUCKET};

use crate::metric::Float;

/// How long things took, and how often they took about that long. Clones share the counts.
#[derive(Debug, Clone)]
pub struct DurationHistogram(Arc<Cells>);

/// How many there were of something, and how often about as many. Clones share the counts.
#[derive(Debug, Clone)]
pub struct SizeHistogram(Arc<Cells>);

/// How large numbers were, and how often about that large. Clones share the counts.
#[derive(Debug, Clone)]
pub struct ValueHistogram {
    cells: Arc<Cells>,
    /// That of the cells would wrap around, and has lost fractions.
    sum: Float,
}

/// The counts of a histogram. There are as many as its layout has cells, whatever is observed.
#[derive(Debug)]
pub(crate) struct Cells {
    layout: &'static CellLayout,
    counts: Box<[AtomicU64]>,
    /// Wraps around after centuries of work, which Prometheus takes for a restart.
    sum: AtomicU64,
    exemplars: Exemplars,
}

/// What was observed up to now.
#[derive(Debug, Clone)]
pub struct Observed {
    layout: &'static CellLayout,
    cells: Vec<u64>,
    /// Always the sum of all buckets, because it is computed from them.
    pub count: u64,
    /// In seconds, or in whatever is counted.
    pub sum: f64,
    /// By classic bucket; empty if there is none.
    exemplars: Vec<Option<Exemplar>>,
}

impl Cells {
    fn new(layout: &'static CellLayout) -> Arc<Self> {
        Arc::new(Self {
            layout,
            counts: (0..layout.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            exemplars: Exemplars::default(),
        })
    }

    fn observe(&self, value: u64, trace: Option<TraceId>) {
        let cell = self.layout.cell(value);
        self.counts[cell].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        if let Some(trace) = trace {
            let bucket = self.layout.classic_of(cell);
            let buckets = self.layout.classic_len() + 1;
            self.exemplars.note((bucket, buckets), value, trace);
        }
    }

    pub(crate) fn read(&self) -> Observed {
        let cells: Vec<u64> = self.counts.iter().map(|it| it.load(Relaxed)).collect();
        Observed {
            layout: self.layout,
            count: cells.iter().sum(),
            cells,
            sum: self.layout.shown(self.sum.load(Relaxed)),
            exemplars: self.exemplars.read(),
        }
    }
}

impl CellLayout {
    /// A whole number as it is shown.
    #[allow(
        clippy::cast_precision_loss,
        reason = "Prometheus' own numbers are floats"
    )]
    fn shown(&self, value: u64) -> f64 {
        value as f64 / self.per_unit
    }
}

impl Observed {
    /// The classic buckets: `le`, how many values are within it, and an example with its value. The last one is `+Inf`.
    pub fn classic(&self) -> impl Iterator<Item = (f64, u64, Option<(Exemplar, f64)>)> {
        let bounded = self.layout.classic(&self.cells);
        let all = bounded.chain([(f64::INFINITY, self.count)]);
        all.enumerate().map(|(bucket, (le, count))| {
            let exemplar = self.exemplars.get(bucket).copied().flatten();
            let exemplar = exemplar.map(|it| (it, self.layout.shown(it.value)));
            (le, count, exemplar)
        })
    }

    /// The native buckets that are not empty, of [`SCHEMA`]: the number of each, and how many values it has. The bucket with
    /// number `i` has values above `base^(i-1)`, up to and including `base^i`.
    #[must_use]
    pub fn native(&self) -> Vec<(i32, u64)> {
        self.layout.native(&self.cells)
    }

    /// The native bucket of zero: the largest value that it has, and how many.
    #[must_use]
    pub fn zero(&self) -> (f64, u64) {
        (self.layout.zero_threshold, self.cells[0])
    }
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self(Cells::new(&DURATIONS))
    }
}

impl Default for SizeHistogram {
    fn default() -> Self {
        Self(Cells::new(&COUNTS))
    }
}

impl Default for ValueHistogram {
    fn default() -> Self {
        Self {
            cells: Cells::new(&VALUES),
            sum: Float::default(),
        }
    }
}

impl ValueHistogram {
    /// Adds a number. One that is negative or not finite is ignored.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is not negative, and one that is too large becomes the largest"
    )]
    pub fn observe(&self, number: f64) {
        if number.is_finite() && 0.0 <= number {
            let whole = (number * self.cells.layout.per_unit).round() as u64;
            self.cells.observe(whole, None);
            self.sum.add(number);
        }
    }

    pub(crate) fn read(&self) -> Observed {
        Observed {
            sum: self.sum.get(),
            ..self.cells.read()
        }
    }
}

impl DurationHistogram {
    /// Adds a duration.
    pub fn observe(&self, took: Duration) {
        self.observe_traced(took, None);
    }

    /// Adds a duration, and the trace of its request if that is recorded.
    pub fn observe_traced(&self, took: Duration, trace: Option<TraceId>) {
        // Nothing takes centuries, so this never saturates.
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.observe(nanos, trace);
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.read().count
    }

    /// The buckets that are not empty, in ascending order. Bucket `i` has the durations up to 2^(i/8) seconds that are
    /// longer than those of the bucket before it; the first one has all up to a microsecond.
    #[must_use]
    pub fn buckets(&self) -> Vec<(i32, u64)> {
        let observed = self.0.read();
        let (_, shortest) = observed.zero();
        let shortest = (shortest > 0).then_some((ZERO_BUCKET, shortest));
        shortest.into_iter().chain(observed.native()).collect()
    }

    pub(crate) fn read(&self) -> Observed {
        self.0.read()
    }
}

impl SizeHistogram {
    /// Adds a size.
    pub fn observe(&self, size: usize) {
        self.0.observe(size as u64, None);
    }

    /// The number of sizes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.read().count
    }

    pub(crate) fn read(&self) -> Observed {
        self.0.read()
    }
}

#[cfg(test)]
mod tests;
