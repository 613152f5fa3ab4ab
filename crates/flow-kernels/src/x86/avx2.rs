//! Tiles of 32-bit floats with AVX2 and FMA: six rows of two registers, so that twelve of the sixteen registers hold
//! sums.
//!
//! Two registers are half a panel, so weights are packed in halves. Reading them from rows of whole panels would touch
//! every other cache line, and take 5 % longer.

use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps};

use super::prefetch;
use crate::tile::{PANEL, Tile};

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 6;

/// Columns computed side by side.
pub(crate) const COLUMNS: usize = 2 * REGISTER;

/// Values in a register.
pub(super) const REGISTER: usize = 8;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX2 and FMA, and [`Tile::check`] must have passed.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn tile_f32(tile: &mut Tile<'_, f32>) {
    for column in (0..PANEL).step_by(COLUMNS) {
        // SAFETY: the caller guarantees what `rows` needs.
        unsafe {
            match tile.rows {
                1 => rows::<1>(tile, column),
                2 => rows::<2>(tile, column),
                3 => rows::<3>(tile, column),
                4 => rows::<4>(tile, column),
                5 => rows::<5>(tile, column),
                _ => rows::<ROWS>(tile, column),
            }
        }
    }
}

/// Computes [`COLUMNS`] columns of `R` rows, beginning with `column`.
///
/// # Safety
///
/// As for [`tile_f32`]. `R` must not exceed the tile's rows, and the columns must lie within the panel.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const R: usize>(tile: &mut Tile<'_, f32>, column: usize) {
    let (a, b, c) = (tile.a.as_ptr(), tile.b.as_ptr(), tile.c.as_mut_ptr());
    // SAFETY: `Tile::check` verified that each row of `a` holds `k` values, that each of the `k` rows of `b` holds both
    // halves of a panel, and that each row of `c` and the bias hold a whole panel.
    unsafe {
        let bias = tile.bias.as_ptr().add(column);
        let bias = [_mm256_loadu_ps(bias), _mm256_loadu_ps(bias.add(REGISTER))];
        let mut sums = [bias; R];
        let mut b = b.wrapping_add(column / COLUMNS * tile.b_half);
        for step in 0..tile.k {
            prefetch(b);
            let weights = [_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(REGISTER))];
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm256_set1_ps(*a.add(row * tile.a_stride + step));
                sums[0] = _mm256_fmadd_ps(value, weights[0], sums[0]);
                sums[1] = _mm256_fmadd_ps(value, weights[1], sums[1]);
            }
            b = b.wrapping_add(tile.b_stride);
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = c.add(row * tile.c_stride + column);
            _mm256_storeu_ps(c, sums[0]);
            _mm256_storeu_ps(c.add(REGISTER), sums[1]);
        }
    }
}
