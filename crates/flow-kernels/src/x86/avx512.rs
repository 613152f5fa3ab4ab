//! Tiles of 32-bit floats with AVX-512: fourteen rows of two registers, so that 28 of the 32 registers hold sums.

use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps};

use super::prefetch;
use crate::tile::Tile;

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 14;

/// Values in a register.
const REGISTER: usize = 16;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX-512 F, and [`Tile::check`] must have passed.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn tile_f32(tile: &mut Tile<'_, f32>) {
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
/// As for [`tile_f32`]. `R` must not exceed the tile's rows.
#[target_feature(enable = "avx512f")]
unsafe fn rows<const R: usize>(tile: &mut Tile<'_, f32>) {
    let (a, mut b, c) = (tile.a.as_ptr(), tile.b.as_ptr(), tile.c.as_mut_ptr());
    // SAFETY: `Tile::check` verified that each row of `a` holds `k` values, and that each of the `k` rows of `b`, each row
    // of `c` and the bias hold two registers.
    unsafe {
        let bias = [
            _mm512_loadu_ps(tile.bias.as_ptr()),
            _mm512_loadu_ps(tile.bias.as_ptr().add(REGISTER)),
        ];
        let mut sums = [bias; R];
        for step in 0..tile.k {
            prefetch(b);
            prefetch(b.wrapping_add(REGISTER));
            let weights = [_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(REGISTER))];
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm512_set1_ps(*a.add(row * tile.a_stride + step));
                sums[0] = _mm512_fmadd_ps(value, weights[0], sums[0]);
                sums[1] = _mm512_fmadd_ps(value, weights[1], sums[1]);
            }
            b = b.wrapping_add(tile.b_stride);
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = c.add(row * tile.c_stride);
            _mm512_storeu_ps(c, sums[0]);
            _mm512_storeu_ps(c.add(REGISTER), sums[1]);
        }
    }
}
