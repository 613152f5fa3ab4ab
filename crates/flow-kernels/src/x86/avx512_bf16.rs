//! Tiles of bf16 with AVX-512 BF16: `vdpbf16ps` multiplies pairs for sixteen columns at once.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_set1_epi32, _mm512_storeu_ps, _mm512_storeu_si512,
};

use super::prefetch;
use crate::bf16;
use crate::row_layout::RowLayout;
use crate::tile::Tile;

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 14;

/// Sums, or pairs of bf16, in a register.
const REGISTER: usize = 16;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX-512 F and BF16, and [`Tile::check`] must have passed.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn tile_bf16(tile: &mut Tile<'_, u16>) {
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
/// As for [`tile_bf16`]. `R` must not exceed the tile's rows.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows<const R: usize>(tile: &mut Tile<'_, u16>) {
    let (a, mut b, c) = (tile.a.as_ptr(), tile.b.as_ptr(), tile.c.as_mut_ptr());
    // SAFETY: `Tile::check` verified that each row of `a` holds `k` pairs, and that each of the `k` rows of `b`, each row
    // of `c` and the bias hold two registers. Pairs are read unaligned.
    unsafe {
        let bias = [
            _mm512_loadu_ps(tile.bias.as_ptr()),
            _mm512_loadu_ps(tile.bias.as_ptr().add(REGISTER)),
        ];
        let mut sums = [bias; R];
        for step in 0..tile.k {
            prefetch(b);
            prefetch(b.wrapping_add(2 * REGISTER));
            let weights = [
                pairs(_mm512_loadu_si512(b.cast())),
                pairs(_mm512_loadu_si512(b.add(2 * REGISTER).cast())),
            ];
            for (row, sums) in sums.iter_mut().enumerate() {
                let pair = a.add(row * tile.a_stride + 2 * step).cast::<i32>();
                let values = pairs(_mm512_set1_epi32(pair.read_unaligned()));
                sums[0] = _mm512_dpbf16_ps(sums[0], values, weights[0]);
                sums[1] = _mm512_dpbf16_ps(sums[1], values, weights[1]);
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

/// Rounds to bf16 as `elementwise::round` does, except that subnormal numbers become zero.
///
/// # Safety
///
/// The machine must have AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn round(values: &[f32], layout: RowLayout, rounded: &mut [u16], stride: usize) {
    for row in 0..layout.rows {
        let from = values[row * layout.stride..][..layout.width].as_chunks();
        let to = rounded[row * stride..][..layout.width].as_chunks_mut();
        for (to, from) in to.0.iter_mut().zip(from.0) {
            round_two(from, to);
        }
        for (to, from) in to.1.iter_mut().zip(from.1) {
            *to = bf16::from_f32(*from);
        }
    }
}

/// Rounds two registers into one.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn round_two(from: &[f32; 2 * REGISTER], to: &mut [u16; 2 * REGISTER]) {
    let start = from.as_ptr();
    // SAFETY: `from` has two registers of values.
    let (low, high) = unsafe { (_mm512_loadu_ps(start), _mm512_loadu_ps(start.add(REGISTER))) };
    store_rounded(low, high, to);
}

/// Rounds the values of two registers, and stores them one after the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn store_rounded(low: __m512, high: __m512, to: &mut [u16; 2 * REGISTER]) {
    // SAFETY: both types have 512 bits, and `to` has space for them.
    unsafe {
        let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
        _mm512_storeu_si512(to.as_mut_ptr().cast(), both);
    }
}

/// Reinterprets the bits of a register as pairs of bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs(register: __m512i) -> __m512bh {
    // SAFETY: both types have 512 bits, and every bit pattern is a valid value.
    unsafe { std::mem::transmute(register) }
}
