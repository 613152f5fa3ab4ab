//! Tiles of 8-bit integers.

use std::arch::x86_64::{
    _mm512_add_epi32, _mm512_add_ps, _mm512_cvtepi32_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps, _mm512_storeu_ps,
};

use super::multiply::{INT8, Operands};
use crate::int8::Int8Tile;
use crate::tile::{NO_BIAS, PANEL};

/// Values in a vector register.
const REGISTER: usize = 16;

/// Computes a tile of up to [`super::ROWS`] rows.
///
/// # Safety
///
/// [`super::is_allowed`] must have returned true, and [`Int8Tile::check`] must have passed. The machine must have AVX-512 F,
/// and the weights must be packed side by side for a whole panel.
pub(crate) unsafe fn tile_int8(tile: &mut Int8Tile<'_>) {
    let operands = Operands {
        rows: tile.rows,
        k: tile.k,
        a: tile.a.as_ptr(),
        a_stride: tile.a_stride,
        b: tile.b.as_ptr().cast(),
        // Zeros are the same in both formats.
        first: NO_BIAS.0.as_ptr().cast(),
        ahead: tile.ahead,
        // The sums are 32-bit integers until `finish` turns them into floats.
        c: tile.c.as_mut_ptr().cast(),
        c_stride: tile.c_stride * size_of::<f32>(),
    };
    // SAFETY: `Int8Tile::check` verified the operands, and the caller guarantees the instructions.
    unsafe {
        INT8.run(operands);
        finish(tile);
    }
}

/// Turns the sums, which are in the place of the results, into results: it adds the products of zero points, scales the sums
/// and adds the bias.
///
/// # Safety
///
/// As for [`tile_int8`].
#[target_feature(enable = "avx512f")]
unsafe fn finish(tile: &mut Int8Tile<'_>) {
    for column in (0..PANEL).step_by(REGISTER) {
        // SAFETY: scales, sums and bias have as many values as a panel, and `Int8Tile::check` verified that each row of `c`
        // does too.
        unsafe {
            let weights = _mm512_loadu_si512(tile.columns.sums.as_ptr().add(column).cast());
            let scales = _mm512_loadu_ps(tile.columns.scales.as_ptr().add(column));
            let bias = _mm512_loadu_ps(tile.bias.as_ptr().add(column));
            for (row, state) in tile.row_scales.iter().enumerate().take(tile.rows) {
                let c = tile.c.as_mut_ptr().add(row * tile.c_stride + column);
                let zero = _mm512_mullo_epi32(_mm512_set1_epi32(-state.zero), weights);
                let sum = _mm512_add_epi32(_mm512_loadu_si512(c.cast()), zero);
                let scale = _mm512_mul_ps(_mm512_set1_ps(state.scale), scales);
                let value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
                _mm512_storeu_ps(c, _mm512_add_ps(value, bias));
            }
        }
    }
}
