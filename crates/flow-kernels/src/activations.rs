//! States of tokens: rows of values whose memory is laid out as tiles want it.

use std::ops::Range;

use crate::elementwise::Shape;
use crate::kernels::Kernels;
use crate::tile::PANEL;

/// Values between the end of a row and the start of the next beyond the last panel: without them, rows of
/// 1536 values would share a few sets of the first cache and push each other out.
const GAP: usize = 32;

/// Which kinds of numbers are kept of each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The 32-bit float.
    F32,
    /// Its bf16 only: what goes into nothing but products.
    Bf16,
    /// Both.
    Both,
}

/// Rows of values.
#[derive(Debug, Clone)]
pub struct Activations {
    keeps: Keeps,
    width: usize,
    stride: usize,
    rows: usize,
    exact: Vec<f32>,
    rounded: Vec<u16>,
}

/// Some rows of [`Activations`].
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    pub(crate) exact: &'a [f32],
    pub(crate) rounded: &'a [u16],
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// Some rows of [`Activations`], to be written.
#[derive(Debug)]
pub struct RowsMut<'a> {
    pub(crate) exact: &'a mut [f32],
    pub(crate) rounded: &'a mut [u16],
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

impl Activations {
    /// No rows yet, of `width` values each.
    #[must_use]
    pub fn new(width: usize, keeps: Keeps) -> Self {
        Self {
            keeps,
            width,
            // Whole panels are written, whatever the width.
            stride: width.next_multiple_of(PANEL) + GAP,
            rows: 0,
            exact: Vec::new(),
            rounded: Vec::new(),
        }
    }

    /// Makes room for so many rows; never gives room back. What stands in them means nothing.
    pub fn grow(&mut self, rows: usize) {
        self.rows = self.rows.max(rows);
        let values = self.rows * self.stride;
        if self.keeps != Keeps::Bf16 {
            self.exact.resize(values, 0.0);
        }
        if self.keeps != Keeps::F32 {
            self.rounded.resize(values, 0);
        }
    }

    /// How many values a row has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows to read.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Rows<'_> {
        let values = self.values(&rows);
        Rows {
            exact: part(&self.exact, &values),
            rounded: part(&self.rounded, &values),
            width: self.width,
            stride: self.stride,
            count: rows.len(),
        }
    }

    /// Rows to write.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    #[must_use]
    pub fn rows_mut(&mut self, rows: Range<usize>) -> RowsMut<'_> {
        let values = self.values(&rows);
        RowsMut {
            exact: part_mut(&mut self.exact, &values),
            rounded: part_mut(&mut self.rounded, &values),
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
    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The values of row `row`, as 32-bit floats.
    ///
    /// # Panics
    ///
    /// If there is no such row, or these numbers are not kept.
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.exact[row * self.stride..][..self.width]
    }
}

impl RowsMut<'_> {
    /// The values of row `row`, as 32-bit floats.
    ///
    /// # Panics
    ///
    /// If there is no such row, or these numbers are not kept.
    #[must_use]
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.exact[row * self.stride..][..self.width]
    }

    /// Makes the bf16 of all values anew, after the 32-bit floats have been written.
    pub fn round(&mut self, kernels: &Kernels) {
        let shape = Shape {
            rows: self.count,
            width: self.width,
            stride: self.stride,
        };
        kernels.round(self.exact, shape, self.rounded, self.stride);
    }

    /// Copies `rows` into the columns from `column` on, in all numbers that are kept.
    ///
    /// # Panics
    ///
    /// If there is no room for them, or `rows` does not keep the same numbers.
    pub fn copy_columns(&mut self, column: usize, rows: Rows<'_>) {
        assert_eq!(self.count, rows.count, "rows");
        copy(self.exact, rows.exact, (self.stride, column), &rows);
        copy(self.rounded, rows.rounded, (self.stride, column), &rows);
    }
}

fn copy<T: Copy>(to: &mut [T], from: &[T], (stride, column): (usize, usize), rows: &Rows<'_>) {
    assert_eq!(to.is_empty(), from.is_empty(), "the same numbers are kept");
    for (to, from) in to.chunks_mut(stride).zip(from.chunks(rows.stride)) {
        to[column..][..rows.width].copy_from_slice(&from[..rows.width]);
    }
}

fn part<'a, T>(all: &'a [T], values: &Range<usize>) -> &'a [T] {
    if all.is_empty() {
        return &[];
    }
    &all[values.clone()]
}

fn part_mut<'a, T>(all: &'a mut [T], values: &Range<usize>) -> &'a mut [T] {
    if all.is_empty() {
        return &mut [];
    }
    &mut all[values.clone()]
}
