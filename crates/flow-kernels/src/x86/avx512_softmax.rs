//! The softmax of scores whose weights become bf16, with AVX-512.
//!
//! A weight keeps 8 bits when it is rounded, so its exponential need not be more exact than a few millionths. It is rounded
//! in the same pass.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_fmsub_ps, _mm512_loadu_ps, _mm512_mask_loadu_ps,
    _mm512_max_ps, _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_reduce_ps, _mm512_scalef_ps,
    _mm512_set1_ps,
};

use super::avx512_bf16::store_rounded;
use crate::row_layout::RowLayout;

/// Values of a register.
const REGISTER: usize = 16;

/// Scores that become one register of weights.
const CHUNK: usize = 2 * REGISTER;

/// The score of what is not part of a row: its weight is zero, and multiplying it by a scale does not overflow.
const PADDING: f32 = -1e30;

/// Two registers of scores or weights.
type Two = [__m512; 2];

/// As `elementwise::softmax_bf16`.
///
/// # Safety
///
/// The machine must have AVX-512 F, DQ and BF16, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bf16,fma")]
pub(crate) unsafe fn softmax_bf16(
    scores: &mut [f32],
    layout: RowLayout,
    scale: f32,
    factors: &mut [f32],
    weights: &mut [u16],
) {
    let factors = &mut factors[..layout.rows];
    // All maxima first: one row's exponentials would wait for its maximum, while another row's maximum can be computed.
    for (scores, maximum) in scores.chunks(layout.stride).zip(&mut *factors) {
        *maximum = max_of(scores, layout.width);
    }
    let rows = scores.chunks(layout.stride);
    let rows = rows.zip(weights.chunks_mut(layout.stride));
    for ((scores, weights), factor) in rows.zip(factors) {
        let exponent = Exponent::new(scale, *factor);
        *factor = 1.0 / powers_of(scores, layout.width, exponent, weights);
    }
}

/// The largest of the first `count` scores of a row, which consists of whole chunks.
#[inline]
#[target_feature(enable = "avx512f")]
fn max_of(scores: &[f32], count: usize) -> f32 {
    let Some((last, whole)) = scores.as_chunks::<CHUNK>().0.split_last() else {
        return 0.0;
    };
    let mut maxima = load_some(last, count - whole.len() * CHUNK);
    for chunk in whole {
        maxima = max(maxima, load(chunk));
    }
    _mm512_reduce_max_ps(_mm512_max_ps(maxima[0], maxima[1]))
}

/// Writes the weights of the first `count` scores of a row, followed by zeros, and returns their sum.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bf16,fma")]
fn powers_of(scores: &[f32], count: usize, exponent: Exponent, weights: &mut [u16]) -> f32 {
    let scores = scores.as_chunks::<CHUNK>().0.split_last();
    let weights = weights.as_chunks_mut::<CHUNK>().0.split_last_mut();
    let (Some((last, whole)), Some((to_last, to_whole))) = (scores, weights) else {
        return 0.0;
    };
    let mut sums = exponent.powers(load_some(last, count - whole.len() * CHUNK));
    store_rounded(sums[0], sums[1], to_last);
    for (chunk, to) in whole.iter().zip(to_whole) {
        let powers = exponent.powers(load(chunk));
        sums = add(sums, powers);
        store_rounded(powers[0], powers[1], to);
    }
    _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]))
}

/// What turns a score into the exponent of a power of two.
#[derive(Clone, Copy)]
struct Exponent {
    factor: __m512,
    /// The exponent of the largest score.
    maximum: __m512,
}

impl Exponent {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(scale: f32, maximum: f32) -> Self {
        let factor = scale * std::f32::consts::LOG2_E;
        Self {
            factor: _mm512_set1_ps(factor),
            maximum: _mm512_set1_ps(factor * maximum),
        }
    }

    /// `exp(scale · (score − maximum))`, accurate to 3 × 10⁻⁶.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,fma")]
    fn powers(self, scores: Two) -> Two {
        scores.map(|scores| power_of_two(_mm512_fmsub_ps(scores, self.factor, self.maximum)))
    }
}

/// 2ˣ. The polynomial for the fraction was fitted for the smallest relative error; at zero it is one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,fma")]
fn power_of_two(x: __m512) -> __m512 {
    const COEFFICIENTS: [f32; 4] = [0.052_242_465, 0.241_280_21, 0.693_044_84, 1.0];
    /// Subtracts the largest integer that is not above the value.
    const FRACTION: i32 = 0b0001;
    let fraction = _mm512_reduce_ps::<FRACTION>(x);
    let mut sum = _mm512_set1_ps(0.013_426_688_5);
    for coefficient in COEFFICIENTS {
        sum = _mm512_fmadd_ps(sum, fraction, _mm512_set1_ps(coefficient));
    }
    // Rounds its second operand down, too.
    _mm512_scalef_ps(sum, x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(chunk: &[f32; CHUNK]) -> Two {
    let start = chunk.as_ptr();
    // SAFETY: the chunk has two registers of values.
    unsafe { [_mm512_loadu_ps(start), _mm512_loadu_ps(start.add(REGISTER))] }
}

/// Loads the first `count` scores of a chunk.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_some(chunk: &[f32; CHUNK], count: usize) -> Two {
    let (mask, padding) = ((1_u64 << count) - 1, _mm512_set1_ps(PADDING));
    let start = chunk.as_ptr();
    // SAFETY: the chunk has two registers of values.
    unsafe {
        [
            _mm512_mask_loadu_ps(padding, mask as u16, start),
            _mm512_mask_loadu_ps(padding, (mask >> REGISTER) as u16, start.add(REGISTER)),
        ]
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn max(a: Two, b: Two) -> Two {
    [_mm512_max_ps(a[0], b[0]), _mm512_max_ps(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: Two, b: Two) -> Two {
    [_mm512_add_ps(a[0], b[0]), _mm512_add_ps(a[1], b[1])]
}
