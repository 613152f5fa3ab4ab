//! Tiles of 8-bit integers with AVX2.
//!
//! `vpmaddubsw` would multiply 8-bit integers, but it saturates: two products of up to 255 · 127 do not fit into 16 bits.
//! Inputs with an even and with an odd index are therefore widened to 16 bits, and multiplied by `vpmaddwd`. A tile takes
//! about as long as one of 32-bit floats, in a quarter of the memory.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_cvtepi32_ps,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_mul_ps, _mm256_mullo_epi32,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi16, _mm256_srai_epi16,
    _mm256_srli_epi16, _mm256_storeu_ps,
};

use super::avx2::{COLUMNS, REGISTER};
use super::prefetch;
use crate::int8::{Int8Tile, STEP};
use crate::tile::PANEL;

/// Maximum rows of a tile: eight registers hold sums, four weights.
pub(crate) const ROWS: usize = 4;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX2, and [`Int8Tile::check`] must have passed.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn tile_int8(tile: &mut Int8Tile<'_>) {
    for column in (0..PANEL).step_by(COLUMNS) {
        // SAFETY: the caller guarantees what `rows` needs.
        unsafe {
            match tile.rows {
                1 => rows::<1>(tile, column),
                2 => rows::<2>(tile, column),
                3 => rows::<3>(tile, column),
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
#[target_feature(enable = "avx2")]
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
            let even = weights.map(|it| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(it)));
            let odd = weights.map(|it| _mm256_srai_epi16::<8>(it));
            for (row, sums) in sums.iter_mut().enumerate() {
                let values = a.add(row * tile.a_stride + STEP * step).cast::<i32>();
                let values = _mm256_set1_epi32(values.read_unaligned());
                let even_values = _mm256_and_si256(values, _mm256_set1_epi16(0xff));
                let odd_values = _mm256_srli_epi16::<8>(values);
                for half in 0..2 {
                    let products = _mm256_add_epi32(
                        _mm256_madd_epi16(even_values, even[half]),
                        _mm256_madd_epi16(odd_values, odd[half]),
                    );
                    sums[half] = _mm256_add_epi32(sums[half], products);
                }
            }
            b = b.wrapping_add(tile.b_stride);
        }
        store(tile, column, &sums);
    }
}

/// The products of each row's zero point and each column's sum of weights.
///
/// # Safety
///
/// The machine must have AVX2, and [`COLUMNS`] columns must lie within the panel. `R` must not exceed the tile's rows.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn first_sums<const R: usize>(
    tile: &Int8Tile<'_>,
    column: usize,
) -> [[__m256i; 2]; R] {
    // SAFETY: the columns lie within the panel.
    let columns = unsafe {
        let columns = tile.columns.sums.as_ptr().add(column);
        [
            _mm256_loadu_si256(columns.cast()),
            _mm256_loadu_si256(columns.add(REGISTER).cast()),
        ]
    };
    std::array::from_fn(|row| {
        let zero = _mm256_set1_epi32(-tile.row_scales[row].zero);
        columns.map(|sums| _mm256_mullo_epi32(zero, sums))
    })
}

/// Scales the sums, adds the bias and writes the results.
///
/// # Safety
///
/// As for [`first_sums`], and [`Int8Tile::check`] must have passed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store<const R: usize>(
    tile: &mut Int8Tile<'_>,
    column: usize,
    sums: &[[__m256i; 2]; R],
) {
    // SAFETY: `Int8Tile::check` verified that each row of `c` holds a whole panel, as scales and bias do, and the columns lie
    // within the panel.
    unsafe {
        for half in 0..2 {
            let column = column + half * REGISTER;
            let scales = _mm256_loadu_ps(tile.columns.scales.as_ptr().add(column));
            let bias = _mm256_loadu_ps(tile.bias.as_ptr().add(column));
            for (row, sums) in sums.iter().enumerate() {
                let scale = _mm256_mul_ps(_mm256_set1_ps(tile.row_scales[row].scale), scales);
                let value = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[half]), scale);
                let c = tile.c.as_mut_ptr().add(row * tile.c_stride + column);
                _mm256_storeu_ps(c, _mm256_add_ps(value, bias));
            }
        }
    }
}
