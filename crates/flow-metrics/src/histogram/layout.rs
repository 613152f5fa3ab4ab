//! Which cell of a histogram a value belongs to, and which buckets a cell is a part of.
//!
//! Prometheus' native histograms have buckets whose bounds grow by a constant factor, and classic ones have the bounds
//! that their author chose. A cell is what lies between two neighbouring bounds of both. So an observation changes one
//! number, and each bucket of both kinds is a sum of whole cells: no value is ever attributed by interpolation.

use std::sync::LazyLock;

/// The schema of the native buckets: each power of two is divided into 2³ of them. A quantile is then within 9 % of the truth.
pub const SCHEMA: i32 = 3;
const PER_OCTAVE: i32 = 1 << SCHEMA;

/// The number that the bucket of zero would have among those of durations.
pub(crate) const ZERO_BUCKET: i32 = -20 * PER_OCTAVE;

/// `le` of classic durations, in seconds: from an executor that does nothing to one that reads a book.
const SECONDS: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// `le` of classic sizes.
const SIZES: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
];

/// `le` of classic numbers, whatever their unit is.
const NUMBERS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0,
    1000.0, 2500.0, 5000.0, 10_000.0,
];

/// Nanoseconds, shown as seconds. Native buckets reach from a microsecond, which is little more than it takes to read the
/// clock, to more than an hour, which is longer than a request may take.
pub(crate) static DURATIONS: LazyLock<CellLayout> = LazyLock::new(|| {
    CellLayout::new(Range {
        per_unit: 1e9,
        native: (ZERO_BUCKET + 1, 12 * PER_OCTAVE),
        zero_threshold: 2f64.powi(-20),
        classic: SECONDS,
    })
});

/// Numbers of things. Native buckets reach from 1 to four billion, and 0 is a bucket of its own.
pub(crate) static COUNTS: LazyLock<CellLayout> = LazyLock::new(|| {
    CellLayout::new(Range {
        per_unit: 1.0,
        native: (0, 32 * PER_OCTAVE),
        // Prometheus' own, far below every number that is not zero.
        zero_threshold: 2f64.powi(-128),
        classic: SIZES,
    })
});

/// Numbers of any unit, in millionths. Native buckets reach from a millionth to four billion.
pub(crate) static VALUES: LazyLock<CellLayout> = LazyLock::new(|| {
    CellLayout::new(Range {
        per_unit: 1e6,
        native: (ZERO_BUCKET + 1, 32 * PER_OCTAVE),
        zero_threshold: 2f64.powi(-20),
        classic: NUMBERS,
    })
});

/// What values a histogram distinguishes.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// How many of the whole numbers that are observed make one of what is shown.
    per_unit: f64,
    /// The first and the last native bucket.
    native: (i32, i32),
    /// The largest value that counts as zero.
    zero_threshold: f64,
    classic: &'static [f64],
}

/// The cells of a histogram, in ascending order. The first one is the native bucket of zero.
#[derive(Debug)]
pub(crate) struct CellLayout {
    /// The largest value of each cell.
    bounds: Vec<u64>,
    /// The first cell that a value of this many significant bits can be in. Behind the last one is the last cell.
    first: [usize; u64::BITS as usize + 2],
    /// The native bucket of each cell but the first.
    native: Vec<i32>,
    /// `le` of each classic bucket, and the number of cells that are within it.
    classic: Vec<(f64, usize)>,
    pub(crate) per_unit: f64,
    pub(crate) zero_threshold: f64,
}

impl CellLayout {
    fn new(range: Range) -> Self {
        let mut native = native_bounds(range);
        // One that is larger than all is in the last bucket.
        if let Some((bound, _)) = native.last_mut() {
            *bound = u64::MAX;
        }
        let mut cells = vec![(whole(range.zero_threshold * range.per_unit), 0)];
        let mut classic = range.classic.iter().map(|le| whole(le * range.per_unit));
        let mut next_classic = classic.next();
        for (bound, index) in native {
            while let Some(le) = next_classic.filter(|le| *le <= bound) {
                if le < bound {
                    cells.push((le, index));
                }
                next_classic = classic.next();
            }
            cells.push((bound, index));
        }
        let bounds: Vec<u64> = cells.iter().map(|(bound, _)| *bound).collect();
        let within = |le: &f64| {
            let le_whole = whole(le * range.per_unit);
            (*le, bounds.partition_point(|bound| *bound <= le_whole))
        };
        Self {
            first: std::array::from_fn(|bits| {
                let smallest = match bits {
                    0 => 0,
                    bits if bits > u64::BITS as usize => u64::MAX,
                    bits => 1 << (bits - 1),
                };
                bounds.partition_point(|bound| *bound < smallest)
            }),
            native: cells.iter().map(|(_, index)| *index).collect(),
            classic: range.classic.iter().map(within).collect(),
            bounds,
            per_unit: range.per_unit,
            zero_threshold: range.zero_threshold,
        }
    }

    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.bounds.len()
    }

    /// The cell of a value.
    pub(crate) fn cell(&self, value: u64) -> usize {
        let bits = (u64::BITS - value.leading_zeros()) as usize;
        let (from, to) = (self.first[bits], self.first[bits + 1]);
        // Counted without a branch, which the processor could not predict. A power of two has a dozen cells at most.
        let below = self.bounds[from..to]
            .iter()
            .map(|bound| usize::from(*bound < value));
        from + below.sum::<usize>()
    }

    /// The number of classic buckets with a finite bound.
    pub(crate) fn classic_len(&self) -> usize {
        self.classic.len()
    }

    /// The classic bucket of a cell, by itself and not cumulative. The last one has no bound.
    pub(crate) fn classic_of(&self, cell: usize) -> usize {
        self.classic.partition_point(|(_, cells)| *cells <= cell)
    }

    /// `le` of each classic bucket, and how many values are within it. The last one, which has no bound, is left out.
    pub(crate) fn classic<'c>(&'c self, cells: &'c [u64]) -> impl Iterator<Item = (f64, u64)> {
        let mut counted = 0;
        let mut sum = 0;
        self.classic.iter().map(move |(le, end)| {
            sum += cells[counted..*end].iter().sum::<u64>();
            counted = *end;
            (*le, sum)
        })
    }

    /// The native buckets that are not empty, except that of zero: the number of each, and how many values it has.
    pub(crate) fn native(&self, cells: &[u64]) -> Vec<(i32, u64)> {
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for (index, count) in self.native.iter().zip(cells).skip(1) {
            match buckets.last_mut() {
                _ if *count == 0 => {}
                Some((last, sum)) if last == index => *sum += count,
                _ => buckets.push((*index, *count)),
            }
        }
        buckets
    }
}

/// The upper bound of each native bucket, and its number. Bounds of sizes that no whole number separates are left out.
fn native_bounds(range: Range) -> Vec<(u64, i32)> {
    let (first, last) = range.native;
    let bound = |index: i32| {
        let (octave, part) = (index.div_euclid(PER_OCTAVE), index.rem_euclid(PER_OCTAVE));
        // Powers of two are exact, the others are rounded once.
        let bound = 2f64.powi(octave) * (f64::from(part) / f64::from(PER_OCTAVE)).exp2();
        whole(bound * range.per_unit)
    };
    let indexes = first..=last;
    let mut bounds: Vec<(u64, i32)> = indexes.map(|index| (bound(index), index)).collect();
    bounds.dedup_by_key(|(bound, _)| *bound);
    bounds
}

/// The largest whole number that is not above a bound. Whole values are within one exactly if they are within the other.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounds are positive and below 2^63"
)]
fn whole(bound: f64) -> u64 {
    bound.floor() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The native bucket of a value as Prometheus defines it: the first whose bound is not below the value.
    fn expected(layout: &CellLayout, value: u64) -> i32 {
        let value = value as f64 / layout.per_unit;
        let exact = (value.log2() * f64::from(PER_OCTAVE)).ceil();
        exact as i32
    }

    fn native_of(layout: &CellLayout, value: u64) -> i32 {
        layout.native[layout.cell(value)]
    }

    #[test]
    fn powers_of_two_are_the_last_values_of_their_buckets() {
        for power in 0..32 {
            let value = 1_u64 << power;
            assert_eq!(native_of(&COUNTS, value), power * PER_OCTAVE, "{value}");
            if value > 8 {
                let next = power * PER_OCTAVE + 1;
                assert_eq!(native_of(&COUNTS, value + 1), next, "{value}");
            }
        }
        for seconds in 0..12 {
            let value = 1_000_000_000 << seconds;
            assert_eq!(native_of(&DURATIONS, value), seconds * PER_OCTAVE);
            assert_eq!(native_of(&DURATIONS, value + 1), seconds * PER_OCTAVE + 1);
        }
    }

    #[test]
    fn zero_and_what_is_too_small_are_in_the_first_cell_and_what_is_too_large_in_the_last() {
        assert_eq!((COUNTS.cell(0), COUNTS.cell(1)), (0, 1));
        // 2^-20 s is 953.67 ns.
        assert_eq!((DURATIONS.cell(953), DURATIONS.cell(954)), (0, 1));
        for layout in [&*COUNTS, &*DURATIONS, &*VALUES] {
            assert_eq!(layout.cell(u64::MAX), layout.len() - 1);
        }
    }

    #[test]
    fn a_histogram_has_a_few_hundred_cells() {
        assert_eq!((DURATIONS.len(), COUNTS.len()), (272, 240));
    }

    #[test]
    fn cells_are_in_order_and_their_buckets_too() {
        for layout in [&*COUNTS, &*DURATIONS, &*VALUES] {
            assert!(layout.bounds.is_sorted_by(|one, next| one < next));
            assert!(layout.native[1..].is_sorted());
            for (le, cells) in &layout.classic {
                let bound = whole(le * layout.per_unit);
                assert_eq!(
                    layout.bounds[cells - 1],
                    bound,
                    "{le} is the bound of a cell"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn a_value_is_within_its_cell_and_in_its_native_bucket(value in 1_000_u64..4_000_000_000_000, shift in 0_u32..40) {
            let value = (value >> shift).max(1);
            for layout in [&*COUNTS, &*DURATIONS] {
                let cell = layout.cell(value);
                prop_assert!(value <= layout.bounds[cell]);
                prop_assert!(cell == 0 || value > layout.bounds[cell - 1]);
                if cell > 0 && cell + 1 < layout.len() {
                    prop_assert_eq!(layout.native[cell], expected(layout, value));
                }
            }
        }

        #[test]
        fn the_classic_bucket_of_a_value_is_the_first_that_holds_it(value in 0_u64..100_000_000_000) {
            for layout in [&*COUNTS, &*DURATIONS] {
                let shown = value as f64 / layout.per_unit;
                let expected = layout.classic.iter().take_while(|(le, _)| *le < shown).count();
                prop_assert_eq!(layout.classic_of(layout.cell(value)), expected);
            }
        }
    }
}
