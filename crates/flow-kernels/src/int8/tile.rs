//! The unit of work of an 8-bit product.

use super::packed::ColumnScales;
use crate::tile::PANEL;

/// Inputs of a step.
pub(crate) const STEP: usize = 4;

/// How a row of 8-bit states becomes numbers: `scale · (value − zero)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowScale {
    pub(crate) scale: f32,
    pub(crate) zero: i32,
}

/// Computes `c = scales · (a − zero) · b + bias` for a few rows.
///
/// The product is a sum of 32-bit integers, which begins with `−zero` times the sum of the column's weights. The result is
/// `sum · (scale of the row · scale of the column) + bias`, in this order and with four roundings, so that the back ends
/// agree to the last bit.
pub(crate) struct Int8Tile<'a> {
    /// Number of rows of `a` and `c`.
    pub(crate) rows: usize,
    /// Number of steps: groups of four inputs.
    pub(crate) k: usize,
    /// States: `rows` rows of `k` steps.
    pub(crate) a: &'a [u8],
    /// Bytes from one row of `a` to the next.
    pub(crate) a_stride: usize,
    /// The scale of each row.
    pub(crate) row_scales: &'a [RowScale],
    /// Weights: `k` rows of one panel.
    pub(crate) b: &'a [i8],
    /// Bytes from one row of `b` to the next.
    pub(crate) b_stride: usize,
    /// Bytes from the first half of a row of `b` to its second half, as in [`crate::tile::Tile`].
    pub(crate) b_half: usize,
    pub(crate) columns: &'a ColumnScales,
    /// Results: `rows` rows of one panel.
    pub(crate) c: &'a mut [f32],
    /// Values from one row of `c` to the next.
    pub(crate) c_stride: usize,
    /// Added to each column of `c`.
    pub(crate) bias: &'a [f32; PANEL],
    /// Which part of the weights behind `b` the kernel should prefetch, if any: the number of tiles before this one that read
    /// the same weights.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only AMX kernels read it")
    )]
    pub(crate) ahead: Option<usize>,
}

/// A kernel that computes a tile.
///
/// # Safety
///
/// The machine must have the kernel's instructions, and [`Int8Tile::check`] must have passed for its number of rows.
pub(crate) type Int8TileFn = unsafe fn(&mut Int8Tile<'_>);

impl Int8Tile<'_> {
    /// Checks that everything that a kernel reads and writes lies within the slices.
    ///
    /// # Panics
    ///
    /// If something does not.
    #[inline]
    pub(crate) fn check(&self, rows_max: usize) {
        assert!(self.rows >= 1 && self.rows <= rows_max, "rows of a tile");
        assert!(self.row_scales.len() >= self.rows, "scales");
        let last = self.rows - 1;
        assert!(self.a.len() >= last * self.a_stride + self.k * STEP, "a");
        let half = PANEL / 2 * STEP;
        assert!(self.b_half >= half, "halves of b");
        let length = |k: usize| (k - 1) * self.b_stride + self.b_half + half;
        assert!(self.k == 0 || self.b.len() >= length(self.k), "b");
        assert!(self.c.len() >= last * self.c_stride + PANEL, "c");
    }
}
