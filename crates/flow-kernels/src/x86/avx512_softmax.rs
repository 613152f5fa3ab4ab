//! The softmax of scores whose weights become bf16, with AVX-512.
//!
//! A weight keeps 8 bits when it is rounded, which is an error of up to 2 × 10⁻³. So its exponential need not be more exact than 10⁻⁴.
//! It is rounded in the same pass.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_fmsub_ps, _mm512_loadu_ps, _mm512_mask_loadu_ps,
    _mm512_reduce_ps, _mm512_scalef_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use super::avx512_bf16::store_rounded;
use crate::elementwise::ScoreBlock;

/// Values of a register.
const REGISTER: usize = 16;

/// Scores that become one register of weights.
const CHUNK: usize = 2 * REGISTER;

/// The score of what is not part of a row: its weight is zero, and multiplying it by a scale does not overflow.
const PADDING: f32 = -1e30;

/// Two registers of scores or weights.
type Two = [__m512; 2];

/// As `elementwise::weigh_bf16`.
///
/// # Safety
///
/// The machine must have AVX-512 F, DQ and BF16, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bf16,fma")]
pub(crate) unsafe fn weigh_bf16(block: &mut ScoreBlock<'_>) {
    let layout = block.layout;
    let rows = block.scores.chunks(layout.stride);
    let rows = rows.zip(block.weights.chunks_mut(block.weights_stride));
    let shifts = block.shifts.iter().zip(&mut *block.sums);
    for ((scores, weights), (shift, sums)) in rows.zip(shifts).take(layout.rows) {
        let exponent = Exponent::new(block.scale, *shift);
        weigh_row(scores, layout.width, exponent, (sums, weights));
    }
}

/// Writes the weights of the first `count` scores of a row, followed by zeros, and adds them to `sums`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bf16,fma")]
fn weigh_row(
    scores: &[f32],
    count: usize,
    exponent: Exponent,
    (sums, weights): (&mut [f32; REGISTER], &mut [u16]),
) {
    let scores = scores.as_chunks::<CHUNK>().0;
    let weights = weights.as_chunks_mut::<CHUNK>().0;
    let whole = count / CHUNK;
    let mut total = [load_sums(sums), _mm512_setzero_ps()];
    for (chunk, to) in scores[..whole].iter().zip(&mut weights[..whole]) {
        let powers = exponent.powers(load(chunk));
        total = add(total, powers);
        store_rounded(powers[0], powers[1], to);
    }
    if !count.is_multiple_of(CHUNK) {
        let powers = exponent.powers(load_some(&scores[whole], count % CHUNK));
        total = add(total, powers);
        store_rounded(powers[0], powers[1], &mut weights[whole]);
    }
    // SAFETY: `sums` has a register of values.
    unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), _mm512_add_ps(total[0], total[1])) };
}

/// What turns a score into the exponent of a power of two.
#[derive(Clone, Copy)]
struct Exponent {
    factor: __m512,
    /// The exponent of the shift.
    shift: __m512,
}

impl Exponent {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(scale: f32, shift: f32) -> Self {
        let factor = scale * std::f32::consts::LOG2_E;
        Self {
            factor: _mm512_set1_ps(factor),
            shift: _mm512_set1_ps(factor * shift),
        }
    }

    /// `exp(scale · (score − shift))`, accurate to 9 × 10⁻⁵.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,fma")]
    fn powers(self, scores: Two) -> Two {
        scores.map(|scores| power_of_two(_mm512_fmsub_ps(scores, self.factor, self.shift)))
    }
}

/// 2ˣ. The polynomial for the fraction was fitted for the smallest relative error; at zero it is one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,fma")]
fn power_of_two(x: __m512) -> __m512 {
    const COEFFICIENTS: [f32; 3] = [0.227_645, 0.695_116_76, 1.0];
    /// Subtracts the largest integer that is not above the value.
    const FRACTION: i32 = 0b0001;
    let fraction = _mm512_reduce_ps::<FRACTION>(x);
    let mut sum = _mm512_set1_ps(0.077_067_06);
    for coefficient in COEFFICIENTS {
        sum = _mm512_fmadd_ps(sum, fraction, _mm512_set1_ps(coefficient));
    }
    // Rounds its second operand down, too.
    _mm512_scalef_ps(sum, x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_sums(sums: &[f32; REGISTER]) -> __m512 {
    // SAFETY: `sums` has a register of values.
    unsafe { _mm512_loadu_ps(sums.as_ptr()) }
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
fn add(a: Two, b: Two) -> Two {
    [_mm512_add_ps(a[0], b[0]), _mm512_add_ps(a[1], b[1])]
}
