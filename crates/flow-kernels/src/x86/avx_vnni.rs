//! Tiles of 8-bit integers with AVX-VNNI: `vpdpbusd` multiplies four inputs for eight columns at once.

use std::arch::x86_64::{_mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_set1_epi32};

use super::avx2::{COLUMNS, REGISTER};
use super::avx2_int8::{first_sums, store};
use super::prefetch;
use crate::int8::{Int8Tile, STEP};
use crate::tile::PANEL;

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 6;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX2 and AVX-VNNI, and [`Int8Tile::check`] must have passed.
#[target_feature(enable = "avx2,avxvnni")]
pub(crate) unsafe fn tile_int8(tile: &mut Int8Tile<'_>) {
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
/// As for [`tile_int8`]. `R` must not exceed the tile's rows, and the columns must lie within the panel.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn rows<const R: usize>(tile: &mut Int8Tile<'_>, column: usize) {
    let (a, b) = (tile.a.as_ptr(), tile.b.as_ptr());
    // SAFETY: `Int8Tile::check` verified that each row of `a` holds `k` steps, and that each of the `k` rows of `b` holds both
    // halves of a panel. Steps are read unaligned.
    unsafe {
        let mut sums = first_sums::<R>(tile, column);
        let mut b = b.wrapping_add(column / COLUMNS * tile.b_half);
        for step in 0..tile.k {
            prefetch(b);
            let weights = [
                _mm256_loadu_si256(b.cast()),
                _mm256_loadu_si256(b.add(STEP * REGISTER).cast()),
            ];
            for (row, sums) in sums.iter_mut().enumerate() {
                let values = a.add(row * tile.a_stride + STEP * step).cast::<i32>();
                let values = _mm256_set1_epi32(values.read_unaligned());
                sums[0] = _mm256_dpbusd_avx_epi32(sums[0], values, weights[0]);
                sums[1] = _mm256_dpbusd_avx_epi32(sums[1], values, weights[1]);
            }
            b = b.wrapping_add(tile.b_stride);
        }
        store(tile, column, &sums);
    }
}
