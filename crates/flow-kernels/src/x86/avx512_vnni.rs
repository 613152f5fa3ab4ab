//! Tiles of 8-bit integers with AVX-512 VNNI: `vpdpbusd` multiplies four inputs for sixteen columns at once.

use std::arch::x86_64::{
    __m512i, _mm512_add_ps, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_storeu_ps,
};

use super::prefetch;
use crate::int8::{Int8Tile, STEP};

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 14;

/// Sums, or groups of four inputs, in a register.
const REGISTER: usize = 16;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX-512 F and VNNI, and [`Int8Tile::check`] must have passed.
#[target_feature(enable = "avx512f,avx512vnni")]
pub(crate) unsafe fn tile_int8(tile: &mut Int8Tile<'_>) {
    // SAFETY: the caller guarantees what `rows` needs.
    unsafe {
        match tile.rows {
            1 => rows::<1>(tile),
            2 => rows::<2>(tile),
            3 => rows::<3>(tile),
            4 => rows::<4>(tile),
            5 => rows::<5>(tile),
            6 => rows::<6>(tile),
            7 => rows::<7>(tile),
            8 => rows::<8>(tile),
            9 => rows::<9>(tile),
            10 => rows::<10>(tile),
            11 => rows::<11>(tile),
            12 => rows::<12>(tile),
            13 => rows::<13>(tile),
            _ => rows::<ROWS>(tile),
        }
    }
}

/// Computes a tile of `R` rows.
///
/// # Safety
///
/// As for [`tile_int8`]. `R` must not exceed the tile's rows.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn rows<const R: usize>(tile: &mut Int8Tile<'_>) {
    let (a, mut b) = (tile.a.as_ptr(), tile.b.as_ptr());
    // SAFETY: `Int8Tile::check` verified that each row of `a` holds `k` steps, and that each of the `k` rows of `b` holds two
    // registers. Steps are read unaligned.
    unsafe {
        let mut sums = first_sums::<R>(tile);
        for step in 0..tile.k {
            prefetch(b);
            prefetch(b.wrapping_add(STEP * REGISTER));
            let weights = [
                _mm512_loadu_si512(b.cast()),
                _mm512_loadu_si512(b.add(STEP * REGISTER).cast()),
            ];
            for (row, sums) in sums.iter_mut().enumerate() {
                let values = a.add(row * tile.a_stride + STEP * step).cast::<i32>();
                let values = _mm512_set1_epi32(values.read_unaligned());
                sums[0] = _mm512_dpbusd_epi32(sums[0], values, weights[0]);
                sums[1] = _mm512_dpbusd_epi32(sums[1], values, weights[1]);
            }
            b = b.wrapping_add(tile.b_stride);
        }
        store(tile, &sums);
    }
}

/// The products of each row's zero point and each column's sum of weights.
///
/// # Safety
///
/// As for [`rows`].
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn first_sums<const R: usize>(tile: &Int8Tile<'_>) -> [[__m512i; 2]; R] {
    let columns = tile.columns.sums.as_ptr();
    // SAFETY: there are as many sums as a panel has columns, which is two registers.
    let columns = unsafe {
        [
            _mm512_loadu_si512(columns.cast()),
            _mm512_loadu_si512(columns.add(REGISTER).cast()),
        ]
    };
    std::array::from_fn(|row| {
        let zero = _mm512_set1_epi32(-tile.row_scales[row].zero);
        columns.map(|sums| _mm512_mullo_epi32(zero, sums))
    })
}

/// Scales the sums, adds the bias and writes the results.
///
/// # Safety
///
/// As for [`rows`].
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn store<const R: usize>(tile: &mut Int8Tile<'_>, sums: &[[__m512i; 2]; R]) {
    // SAFETY: `Int8Tile::check` verified that each row of `c` holds a whole panel, which is two registers, as scales and bias
    // do.
    unsafe {
        for half in 0..2 {
            let column = half * REGISTER;
            let scales = _mm512_loadu_ps(tile.columns.scales.as_ptr().add(column));
            let bias = _mm512_loadu_ps(tile.bias.as_ptr().add(column));
            for (row, sums) in sums.iter().enumerate() {
                let scale = _mm512_mul_ps(_mm512_set1_ps(tile.row_scales[row].scale), scales);
                let value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[half]), scale);
                let c = tile.c.as_mut_ptr().add(row * tile.c_stride + column);
                _mm512_storeu_ps(c, _mm512_add_ps(value, bias));
            }
        }
    }
}
