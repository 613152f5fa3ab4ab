//! Tiles of bf16 with AVX-512 F: values are widened to 32-bit floats, which are multiplied.
//!
//! States are widened once for a tile, and weights with each step, which takes one instruction for fourteen rows of products. So a
//! tile takes little longer than one of 32-bit floats, in half of the memory. This is for processors without instructions for
//! bf16, and for those whose instructions are slow: see [`crate::InstructionSet`].

use std::arch::x86_64::{
    __m512, _mm256_loadu_si256, _mm256_maskz_loadu_epi16, _mm512_castsi512_ps,
    _mm512_cvtepu16_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_maskz_loadu_epi16, _mm512_set1_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};
use std::mem::MaybeUninit;

use super::prefetch;
use crate::tile::{PANEL, Tile};

/// Maximum rows of a tile: 28 of the 32 registers hold sums.
pub(crate) const ROWS: usize = 14;

/// Values in a register.
const REGISTER: usize = 16;

/// Values of a row that are widened at once. All rows of a tile take 14 KB, so they stay in the L1 cache.
const CHUNK: usize = 256;

/// The second value of each pair.
const SECOND: u32 = 0xAAAA_AAAA;

/// Room for the widened values of some rows, which begins at a cache line. Only values that were written are read.
#[repr(C, align(64))]
struct States<const R: usize>([[MaybeUninit<f32>; CHUNK]; R]);

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have AVX-512 F, BW and VL, and [`Tile::check`] must have passed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn rows<const R: usize>(tile: &mut Tile<'_, u16>) {
    let mut states = States([[MaybeUninit::uninit(); CHUNK]; R]);
    // SAFETY: `Tile::check` verified that each row of `a` holds `k` pairs, that each of the `k` rows of `b` holds both halves of
    // a panel, and that each row of `c` and the bias hold two registers.
    unsafe {
        let bias = [
            _mm512_loadu_ps(tile.bias.as_ptr()),
            _mm512_loadu_ps(tile.bias.as_ptr().add(REGISTER)),
        ];
        let mut sums = [bias; R];
        let mut first = 0;
        while first < tile.k {
            let steps = (tile.k - first).min(CHUNK / 2);
            widen(tile, first, steps, &mut states);
            let b = tile.b.as_ptr().add(first * tile.b_stride);
            multiply((b, tile.b_stride), steps, &states, &mut sums);
            first += steps;
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = tile.c.as_mut_ptr().add(row * tile.c_stride);
            _mm512_storeu_ps(c, sums[0]);
            _mm512_storeu_ps(c.add(REGISTER), sums[1]);
        }
    }
}

/// Widens the states of some steps.
///
/// # Safety
///
/// As for [`rows`]. The tile must have the steps, which are at most half of [`CHUNK`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn widen<const R: usize>(
    tile: &Tile<'_, u16>,
    first: usize,
    steps: usize,
    states: &mut States<R>,
) {
    for (row, states) in states.0.iter_mut().enumerate() {
        let mut store = |start: usize, values| {
            let values = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(values));
            // SAFETY: a chunk is a whole number of registers.
            unsafe {
                let to = states.as_mut_ptr().add(start).cast();
                _mm512_storeu_ps(to, _mm512_castsi512_ps(values));
            }
        };
        let (whole, rest) = (2 * steps / REGISTER * REGISTER, 2 * steps % REGISTER);
        // SAFETY: only the values of the steps are read.
        unsafe {
            let from = tile.a.as_ptr().add(row * tile.a_stride + 2 * first);
            for start in (0..whole).step_by(REGISTER) {
                store(start, _mm256_loadu_si256(from.add(start).cast()));
            }
            if rest > 0 {
                let mask = u16::MAX >> (REGISTER - rest);
                store(
                    whole,
                    _mm256_maskz_loadu_epi16(mask, from.add(whole).cast()),
                );
            }
        }
    }
}

/// Adds the products of some steps.
///
/// # Safety
///
/// The machine must have AVX-512 F and BW, `b` must point to as many rows of a whole panel as there are steps, and the states of the
/// steps must have been widened.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn multiply<const R: usize>(
    (mut b, stride): (*const u16, usize),
    steps: usize,
    states: &States<R>,
    sums: &mut [[__m512; 2]; R],
) {
    // SAFETY: the caller guarantees that the weights and two values of each row for each step are there.
    unsafe {
        for step in 0..steps {
            prefetch(b);
            prefetch(b.wrapping_add(PANEL));
            // First all first values, then all second ones: there are too few registers for both.
            let weights = [first(b), first(b.add(PANEL))];
            add(sums, states, 2 * step, weights);
            let weights = [second(b), second(b.add(PANEL))];
            add(sums, states, 2 * step + 1, weights);
            b = b.wrapping_add(stride);
        }
    }
}

/// Adds the products of one value of each row.
///
/// # Safety
///
/// The machine must have AVX-512 F, and the value must have been widened in all rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn add<const R: usize>(
    sums: &mut [[__m512; 2]; R],
    states: &States<R>,
    value: usize,
    weights: [__m512; 2],
) {
    for (sums, states) in sums.iter_mut().zip(&states.0) {
        // SAFETY: the caller guarantees that the value was written.
        let state = _mm512_set1_ps(unsafe { states.get_unchecked(value).assume_init() });
        sums[0] = _mm512_fmadd_ps(state, weights[0], sums[0]);
        sums[1] = _mm512_fmadd_ps(state, weights[1], sums[1]);
    }
}

/// The first value of each of sixteen pairs.
///
/// # Safety
///
/// The machine must have AVX-512 F, and `pairs` must point to sixteen of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn first(pairs: *const u16) -> __m512 {
    // SAFETY: the caller guarantees that the pairs are there.
    let pairs = unsafe { _mm512_loadu_si512(pairs.cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs))
}

/// The second value of each of sixteen pairs: with the first one as zeros, it is a 32-bit float.
///
/// # Safety
///
/// As for [`first`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn second(pairs: *const u16) -> __m512 {
    // SAFETY: the caller guarantees that the pairs are there.
    _mm512_castsi512_ps(unsafe { _mm512_maskz_loadu_epi16(SECOND, pairs.cast()) })
}
