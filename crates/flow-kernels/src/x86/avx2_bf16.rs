//! Tiles of bf16 with AVX2, which has no instructions for bf16: values are widened to 32-bit floats by shifting.
//!
//! Each pair takes one or two shifts, for every register of weights and for every state. A model takes almost twice as
//! long as in 32-bit floats, in half the memory.

use std::arch::x86_64::{
    __m256, __m256i, _mm256_castsi256_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_set1_epi32, _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_ps,
};

use super::avx2::{COLUMNS, REGISTER, ROWS};
use super::prefetch;
use crate::tile::{PANEL, Tile};

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX2 and FMA, and [`Tile::check`] must have passed.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn tile_bf16(tile: &mut Tile<'_, u16>) {
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
/// As for [`tile_bf16`]. `R` must not exceed the tile's rows, and the columns must lie within the panel.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const R: usize>(tile: &mut Tile<'_, u16>, column: usize) {
    let (a, b, c) = (tile.a.as_ptr(), tile.b.as_ptr(), tile.c.as_mut_ptr());
    // SAFETY: `Tile::check` verified that each row of `a` holds `k` pairs, that each of the `k` rows of `b` holds both
    // halves of a panel, and that each row of `c` and the bias hold a whole panel. Pairs are read unaligned.
    unsafe {
        let bias = tile.bias.as_ptr().add(column);
        let bias = [_mm256_loadu_ps(bias), _mm256_loadu_ps(bias.add(REGISTER))];
        let mut sums = [bias; R];
        let mut b = b.wrapping_add(column / COLUMNS * tile.b_half);
        for step in 0..tile.k {
            prefetch(b);
            let pairs = [
                _mm256_loadu_si256(b.cast()),
                _mm256_loadu_si256(b.add(2 * REGISTER).cast()),
            ];
            let states = |row: usize| {
                let pair = a.add(row * tile.a_stride + 2 * step).cast::<i32>();
                _mm256_set1_epi32(pair.read_unaligned())
            };
            // First all first values, then all second ones: there are too few registers for both.
            let weights = [first(pairs[0]), first(pairs[1])];
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = first(states(row));
                sums[0] = _mm256_fmadd_ps(value, weights[0], sums[0]);
                sums[1] = _mm256_fmadd_ps(value, weights[1], sums[1]);
            }
            let weights = [second(pairs[0]), second(pairs[1])];
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = second(states(row));
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

/// Widens the first value of each pair.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn first(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs))
}

/// Widens the second value of each pair.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn second(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_srli_epi32::<16>(pairs)))
}
