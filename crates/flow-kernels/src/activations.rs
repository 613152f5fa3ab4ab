//! Matrices of hidden states, one row per token, laid out in memory as tiles read them.

use std::ops::Range;

use crate::aligned::AlignedVec;
use crate::tile::PANEL;

/// Unused values between the last panel of a row and the next row.
///
/// Without them, rows of 1536 values would map to a few sets of the L1 cache and evict each other.
const ROW_PADDING: usize = 32;

/// The number formats in which [`Activations`] store each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// 32-bit floats.
    F32,
    /// bf16, for values that are only read by matrix products.
    Bf16,
    /// Both.
    Both,
}

/// A matrix of hidden states: one row per token.
#[derive(Debug, Clone)]
pub struct Activations {
    storage: Storage,
    width: usize,
    stride: usize,
    rows: usize,
    f32s: AlignedVec<f32>,
    bf16s: AlignedVec<u16>,
}

/// Some rows of [`Activations`].
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Empty if 32-bit floats are not stored.
    pub(crate) f32s: &'a [f32],
    /// Empty if bf16 is not stored.
    pub(crate) bf16s: &'a [u16],
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// Some rows of [`Activations`], writable.
#[derive(Debug)]
pub struct RowsMut<'a> {
    /// Empty if 32-bit floats are not stored.
    pub(crate) f32s: &'a mut [f32],
    /// Empty if bf16 is not stored.
    pub(crate) bf16s: &'a mut [u16],
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

impl Activations {
    /// Creates a matrix without rows. Each row will have `width` values.
    #[must_use]
    pub fn new(width: usize, storage: Storage) -> Self {
        Self {
            storage,
            width,
            // Tiles write whole panels, whatever the width.
            stride: width.next_multiple_of(PANEL) + ROW_PADDING,
            rows: 0,
            f32s: AlignedVec::default(),
            bf16s: AlignedVec::default(),
        }
    }

    /// Grows the matrix to at least `rows` rows. It never shrinks. The values of new rows are unspecified.
    pub fn grow(&mut self, rows: usize) {
        self.rows = self.rows.max(rows);
        let values = self.rows * self.stride;
        if self.storage != Storage::Bf16 {
            self.f32s.grow(values);
        }
        if self.storage != Storage::F32 {
            self.bf16s.grow(values);
        }
    }

    /// Number of values in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The rows of a range.
    ///
    /// # Panics
    ///
    /// If the matrix has fewer rows.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Rows<'_> {
        let values = self.values(&rows);
        Rows {
            f32s: part(&self.f32s, &values),
            bf16s: part(&self.bf16s, &values),
            width: self.width,
            stride: self.stride,
            count: rows.len(),
        }
    }

    /// The rows of a range, writable.
    ///
    /// # Panics
    ///
    /// If the matrix has fewer rows.
    #[must_use]
    pub fn rows_mut(&mut self, rows: Range<usize>) -> RowsMut<'_> {
        let values = self.values(&rows);
        RowsMut {
            f32s: part_mut(&mut self.f32s, &values),
            bf16s: part_mut(&mut self.bf16s, &values),
            width: self.width,
            stride: self.stride,
            count: rows.len(),
        }
    }

    fn values(&self, rows: &Range<usize>) -> Range<usize> {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        rows.start * self.stride..rows.end * self.stride
    }
}

impl<'a> Rows<'a> {
    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The same rows, with only these formats.
    #[must_use]
    pub fn stored_in(self, storage: Storage) -> Self {
        match storage {
            Storage::F32 => Self { bf16s: &[], ..self },
            Storage::Bf16 => Self { f32s: &[], ..self },
            Storage::Both => self,
        }
    }

    /// The values of a row, as 32-bit floats.
    ///
    /// # Panics
    ///
    /// If there is no such row, or 32-bit floats are not stored.
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.f32s[row * self.stride..][..self.width]
    }
}

impl RowsMut<'_> {
    /// The values of a row, as 32-bit floats. [`Kernels::round_rows`](crate::Kernels::round_rows) updates the bf16
    /// copy after they have changed.
    ///
    /// # Panics
    ///
    /// If there is no such row, or 32-bit floats are not stored.
    #[must_use]
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.f32s[row * self.stride..][..self.width]
    }

    /// Copies `rows` into the columns that begin at `column`, in every stored format.
    ///
    /// # Panics
    ///
    /// If the rows do not fit, or do not store the same formats.
    pub fn copy_columns(&mut self, column: usize, rows: Rows<'_>) {
        assert_eq!(self.count, rows.count, "number of rows");
        copy(self.f32s, rows.f32s, (self.stride, column), &rows);
        copy(self.bf16s, rows.bf16s, (self.stride, column), &rows);
    }
}

fn copy<T: Copy>(to: &mut [T], from: &[T], (stride, column): (usize, usize), rows: &Rows<'_>) {
    assert_eq!(to.is_empty(), from.is_empty(), "stored formats");
    for (to, from) in to.chunks_mut(stride).zip(from.chunks(rows.stride)) {
        to[column..][..rows.width].copy_from_slice(&from[..rows.width]);
    }
}

/// A range of stored values. Empty if the format is not stored.
fn part<'a, T>(all: &'a [T], values: &Range<usize>) -> &'a [T] {
    if all.is_empty() {
        return &[];
    }
    &all[values.clone()]
}

/// As [`part`], writable.
fn part_mut<'a, T>(all: &'a mut [T], values: &Range<usize>) -> &'a mut [T] {
    if all.is_empty() {
        return &mut [];
    }
    &mut all[values.clone()]
}
