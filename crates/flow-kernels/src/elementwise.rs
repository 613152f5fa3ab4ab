//! Softmax, activations, layer norm and rounding.
//!
//! They are written once, as loops that the compiler vectorizes, and compiled once for each instruction set. All of them
//! compute in 32-bit floats.

use crate::bf16;
use crate::int8::{RowScale, StateLayout, rotate};
use crate::row_layout::RowLayout;
use crate::tile::PANEL;

/// Independent sums and maxima that a loop keeps: one AVX-512 register.
pub(crate) const LANES: usize = 16;

/// Applies an activation in place.
///
/// # Safety
/// The machine must have the instructions that the function was compiled for.
pub(crate) type ActivateFn = unsafe fn(&mut [f32], RowLayout);
/// As [`ActivateFn`], and rounds the results to bf16. The values are unspecified afterwards.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type ActivateBf16Fn = unsafe fn(&mut [f32], RowLayout, &mut [u16], usize);
/// Applies an unnormalized softmax to each row.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type SoftmaxFn = unsafe fn(&mut [f32], RowLayout, f32, &mut [f32]);
/// Turns scores into weights in bf16.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type WeighBf16Fn = unsafe fn(&mut ScoreBlock<'_>);
/// Multiplies each row by a factor.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type ScaleRowsFn = unsafe fn(&mut [f32], RowLayout, &[f32]);
/// Adds one row to another and normalizes the sum.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type AddLayerNormFn = unsafe fn(&mut [f32], &[f32], &LayerNormArgs<'_>);
/// Rounds rows to bf16.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type RoundFn = unsafe fn(&[f32], RowLayout, &mut [u16], usize);

/// Multiplies a row by factors, rotates it and turns it into 8-bit integers.
///
/// # Safety
/// As for [`ActivateFn`].
pub(crate) type QuantizeFn = unsafe fn(&[f32], &StateLayout, &mut [f32], &mut [u8]) -> RowScale;

/// The functions of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Elementwise {
    pub(crate) softmax: SoftmaxFn,
    pub(crate) weigh_bf16: WeighBf16Fn,
    pub(crate) scale_rows: ScaleRowsFn,
    pub(crate) gelu: ActivateFn,
    /// GELU of rows of one panel in bf16, if that is faster than GELU and rounding.
    pub(crate) gelu_bf16: Option<ActivateBf16Fn>,
    pub(crate) gelu_tanh: ActivateFn,
    pub(crate) relu: ActivateFn,
    pub(crate) add_layer_norm: AddLayerNormFn,
    pub(crate) round: RoundFn,
    pub(crate) quantize: QuantizeFn,
}

/// The parameters of a layer norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNormArgs<'a> {
    /// Factor of each normalized value.
    pub(crate) scale: &'a [f32],
    /// Added to each scaled value.
    pub(crate) shift: &'a [f32],
    /// Added to the variance.
    pub(crate) epsilon: f32,
}

/// The scores of some queries with a block of keys, which become weights: `exp(scale · (score − shift))`.
pub(crate) struct ScoreBlock<'a> {
    /// Unspecified afterwards, and before in the last register of a row behind its width.
    pub(crate) scores: &'a mut [f32],
    /// A row has as many scores as the block has keys. Its stride is a multiple of the panel.
    pub(crate) layout: RowLayout,
    pub(crate) scale: f32,
    /// The shift of each row.
    pub(crate) shifts: &'a [f32],
    /// To which the weights of each row are added before they are rounded, lane by lane.
    pub(crate) sums: &'a mut [[f32; LANES]],
    /// Where weights go. What lies behind those of a row becomes zero, up to the next multiple of the panel.
    pub(crate) weights: &'a mut [u16],
    /// Distance from one row of weights to the next.
    pub(crate) weights_stride: usize,
}

/// Compiles the functions for an instruction set.
macro_rules! elementwise {
    ($name:ident, $fused:literal $(, $features:literal)?) => {
        pub(crate) mod $name {
            use crate::elementwise::{self, Elementwise, LayerNormArgs, ScoreBlock, map, max};
            use crate::int8::{RowScale, StateLayout};
            use crate::row_layout::RowLayout;

            pub(crate) const TABLE: Elementwise = Elementwise {
                softmax,
                weigh_bf16,
                scale_rows,
                gelu,
                gelu_bf16: None,
                gelu_tanh,
                relu,
                add_layer_norm,
                round,
                quantize,
            };

            $(#[target_feature(enable = $features)])?
            fn softmax(values: &mut [f32], layout: RowLayout, scale: f32, factors: &mut [f32]) {
                let factors = &mut factors[..layout.rows];
                // All maxima first: exponentials of one row would wait for its maximum, while another row's is computed.
                for (row, maximum) in values.chunks_mut(layout.stride).zip(&mut *factors) {
                    *maximum = elementwise::maximum(row, layout.width);
                }
                for (row, factor) in values.chunks_mut(layout.stride).zip(factors) {
                    *factor = elementwise::softmax::<$fused>(row, layout.width, *factor, scale);
                }
            }

            $(#[target_feature(enable = $features)])?
            fn weigh_bf16(block: &mut ScoreBlock<'_>) {
                elementwise::weigh_bf16::<$fused>(block);
            }

            $(#[target_feature(enable = $features)])?
            fn scale_rows(values: &mut [f32], layout: RowLayout, factors: &[f32]) {
                let row_layout = RowLayout { rows: 1, ..layout };
                for (row, factor) in values.chunks_mut(layout.stride).zip(&factors[..layout.rows]) {
                    map(row, row_layout, |value| value * factor);
                }
            }

            $(#[target_feature(enable = $features)])?
            fn gelu(values: &mut [f32], layout: RowLayout) {
                map(values, layout, elementwise::gelu::<$fused>);
            }

            $(#[target_feature(enable = $features)])?
            fn gelu_tanh(values: &mut [f32], layout: RowLayout) {
                map(values, layout, elementwise::gelu_tanh::<$fused>);
            }

            $(#[target_feature(enable = $features)])?
            fn relu(values: &mut [f32], layout: RowLayout) {
                map(values, layout, |value| max(value, 0.0));
            }

            $(#[target_feature(enable = $features)])?
            fn add_layer_norm(values: &mut [f32], added: &[f32], weights: &LayerNormArgs<'_>) {
                elementwise::add_layer_norm::<$fused>(values, added, weights);
            }

            $(#[target_feature(enable = $features)])?
            fn round(values: &[f32], layout: RowLayout, rounded: &mut [u16], stride: usize) {
                elementwise::round(values, layout, rounded, stride);
            }

            $(#[target_feature(enable = $features)])?
            fn quantize(
                row: &[f32],
                layout: &StateLayout,
                rotated: &mut [f32],
                quantized: &mut [u8],
            ) -> RowScale {
                elementwise::quantize((row, layout), rotated, quantized)
            }
        }
    };
}

elementwise!(portable, false);
#[cfg(target_arch = "x86_64")]
elementwise!(avx2, true, "avx2,fma");
#[cfg(target_arch = "x86_64")]
elementwise!(avx512, true, "avx512f,avx512bw,avx512dq,avx512vl,fma");
#[cfg(target_arch = "aarch64")]
elementwise!(neon, true, "neon");

// Loops over whole chunks of lanes have a known length, so the compiler emits no scalar remainder for them.

/// Replaces each value by the result of `function`.
#[inline(always)]
fn map(values: &mut [f32], layout: RowLayout, function: impl Fn(f32) -> f32) {
    for row in 0..layout.rows {
        let row = &mut values[row * layout.stride..][..layout.width];
        let (lanes, rest) = row.as_chunks_mut::<LANES>();
        for lanes in lanes {
            lanes.iter_mut().for_each(|value| *value = function(*value));
        }
        rest.iter_mut().for_each(|value| *value = function(*value));
    }
}

/// Rounds each value to bf16. Rows of `rounded` are `stride` values apart.
#[inline(always)]
fn round(values: &[f32], layout: RowLayout, rounded: &mut [u16], stride: usize) {
    for row in 0..layout.rows {
        let from = &values[row * layout.stride..][..layout.width];
        // The compiler vectorizes this loop without chunks of lanes.
        for (to, from) in rounded[row * stride..].iter_mut().zip(from) {
            *to = bf16::from_f32(*from);
        }
    }
}

/// How the values of a row become 8-bit integers: the smallest one becomes about 0 and the largest about 254.
///
/// A step is a 254th of the range, so that no value exceeds 255 when the zero point is rounded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRange {
    /// Steps of a unit.
    pub(crate) factor: f32,
    /// Adding it rounds to an integer and adds the zero point. The integer is in the low bits of the sum.
    pub(crate) offset: f32,
    pub(crate) scale: RowScale,
}

impl RowRange {
    /// `low` is at most 0 and `high` at least 0, so that zero is an integer.
    #[inline(always)]
    pub(crate) fn new(low: f32, high: f32) -> Self {
        const STEPS: f32 = 254.0;
        let range = max(high - low, f32::MIN_POSITIVE * STEPS);
        let factor = STEPS / range;
        let zero = (-low * factor + ROUNDING_BIAS) - ROUNDING_BIAS;
        Self {
            factor,
            offset: ROUNDING_BIAS + zero,
            scale: RowScale {
                scale: range / STEPS,
                zero: zero as i32,
            },
        }
    }
}

/// Multiplies a row by factors, rotates it and turns it into 8-bit integers. `rotated` is as long as the row.
///
/// Nothing is fused, so all instruction sets have the same results.
#[inline(always)]
fn quantize(
    (row, layout): (&[f32], &StateLayout),
    rotated: &mut [f32],
    quantized: &mut [u8],
) -> RowScale {
    for ((to, value), factor) in rotated.iter_mut().zip(row).zip(&layout.factors) {
        *to = value * factor;
    }
    rotate(rotated, layout.rotation.block());
    let range = RowRange::new(fold(rotated, min), fold(rotated, max));
    for (to, value) in quantized.iter_mut().zip(&*rotated) {
        *to = (value * range.factor + range.offset).to_bits() as u8;
    }
    range.scale
}

/// Combines all values and zero.
#[inline(always)]
fn fold(values: &[f32], function: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = function(*value, *lane);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = function(*value, *lane);
    }
    reduce(lanes, function)
}

/// `a * b + c`, with a single rounding where the machine has a fast fused multiply-add.
#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

// Unlike `f32::max` and `f32::min`, these do not treat NaN specially, so each is one instruction.
#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Adding `1.5 · 2²³` rounds to an integer, which is then in the low bits of the sum.
pub(crate) const ROUNDING_BIAS: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Beyond these limits, powers of two are not normal numbers.
const EXP_MIN: f32 = -87.0;
const EXP_MAX: f32 = 88.0;

/// The exponential function, accurate to two units in the last place, with the polynomial of Cephes' `expf`.
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    let x = min(max(x, EXP_MIN), EXP_MAX);
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, ROUNDING_BIAS);
    let power = shifted - ROUNDING_BIAS;
    let r = fma::<FUSED>(power, -LN_2_HIGH, x);
    let r = fma::<FUSED>(power, -LN_2_LOW, r);
    let mut p = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        0.166_666_65,
        0.5,
    ] {
        p = fma::<FUSED>(p, r, coefficient);
    }
    let p = fma::<FUSED>(p * r, r, r + 1.0);
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The error function as a quotient of polynomials, accurate to 4 × 10⁻⁷, with the coefficients of Eigen's `erf`.
#[inline(always)]
fn erf<const FUSED: bool>(x: f32) -> f32 {
    // Beyond these limits it is 1 in 32-bit floats.
    let x = min(max(x, -4.0), 4.0);
    let square = x * x;
    let mut numerator = -2.726_142e-10;
    for coefficient in [
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_5e-5,
        -7.349_906e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ] {
        numerator = fma::<FUSED>(numerator, square, coefficient);
    }
    let mut denominator = -1.456_607_2e-5;
    for coefficient in [
        -2.133_740_6e-4,
        -1.682_827e-3,
        -7.373_329_2e-3,
        -1.426_473_9e-2,
    ] {
        denominator = fma::<FUSED>(denominator, square, coefficient);
    }
    x * numerator / denominator
}

/// GELU (Hendrycks and Gimpel, 2016), with the error function.
#[inline(always)]
fn gelu<const FUSED: bool>(x: f32) -> f32 {
    let half = 0.5 * x;
    fma::<FUSED>(
        half,
        erf::<FUSED>(x * std::f32::consts::FRAC_1_SQRT_2),
        half,
    )
}

/// [`gelu`] of one value, for what is left of a row.
#[cfg(target_arch = "x86_64")]
pub(crate) fn gelu_of(x: f32) -> f32 {
    gelu::<false>(x)
}

/// GELU, approximated with the hyperbolic tangent.
#[inline(always)]
fn gelu_tanh<const FUSED: bool>(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let inner = SQRT_2_OVER_PI * fma::<FUSED>(0.044_715 * x * x, x, x);
    // x · (1 + tanh u) / 2 = x / (1 + exp(−2u))
    x / (1.0 + exp::<FUSED>(-2.0 * inner))
}

/// Replaces the first `count` values of `row` by `exp(scale · (value − maximum))`, and returns the factor that turns them
/// into a softmax of `scale · value`.
///
/// [`maximum`] must have returned the maximum of the row.
#[inline(always)]
fn softmax<const FUSED: bool>(row: &mut [f32], count: usize, maximum: f32, scale: f32) -> f32 {
    let (lanes, _) = row[..count.next_multiple_of(LANES)].as_chunks_mut::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in lanes {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *value = exp::<FUSED>((*value - maximum) * scale);
            *sum += *value;
        }
    }
    1.0 / reduce(sums, |a, b| a + b)
}

/// As [`WeighBf16Fn`].
#[inline(always)]
fn weigh_bf16<const FUSED: bool>(block: &mut ScoreBlock<'_>) {
    let layout = block.layout;
    let rows = block.scores.chunks_mut(layout.stride).zip(block.shifts);
    for ((row, shift), sums) in rows.zip(&mut *block.sums).take(layout.rows) {
        pad(row, layout.width);
        let (lanes, _) = row[..layout.width.next_multiple_of(LANES)].as_chunks_mut::<LANES>();
        for chunk in lanes {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *value = exp::<FUSED>((*value - shift) * block.scale);
                *sum += *value;
            }
        }
    }
    round(block.scores, layout, block.weights, block.weights_stride);
    for row in block
        .weights
        .chunks_mut(block.weights_stride)
        .take(layout.rows)
    {
        row[layout.width..layout.width.next_multiple_of(PANEL)].fill(0);
    }
}

/// A score whose exponential is zero. Multiplying it by a scale does not overflow.
const PADDING: f32 = -1e30;

/// The maximum of the first `count` values of a row. What lies behind them in their last chunk of lanes becomes [`PADDING`].
///
/// The row must be long enough for whole chunks of lanes; values beyond `count` are unspecified before.
#[inline(always)]
fn maximum(row: &mut [f32], count: usize) -> f32 {
    pad(row, count);
    let (lanes, _) = row[..count.next_multiple_of(LANES)].as_chunks::<LANES>();
    let mut maxima = [PADDING; LANES];
    for chunk in lanes {
        for (maximum, value) in maxima.iter_mut().zip(chunk) {
            *maximum = max(*value, *maximum);
        }
    }
    reduce(maxima, max)
}

/// Fills the last chunk of lanes of the first `count` values with [`PADDING`].
#[inline(always)]
fn pad(row: &mut [f32], count: usize) {
    let (lanes, _) = row[..count.next_multiple_of(LANES)].as_chunks_mut::<LANES>();
    let (last, rest) = (lanes.len() - 1, count - (lanes.len() - 1) * LANES);
    // All lanes are written at once, because a vector load after writes to single lanes would stall.
    let values = lanes[last];
    lanes[last] = std::array::from_fn(|lane| {
        // In 32 bits, so that it becomes a comparison of vectors.
        if (lane as u32) < rest as u32 {
            values[lane]
        } else {
            PADDING
        }
    });
}

/// Adds `added` to `values`, and applies a layer norm to the sums (Ba, Kiros and Hinton, 2016).
#[inline(always)]
fn add_layer_norm<const FUSED: bool>(
    values: &mut [f32],
    added: &[f32],
    weights: &LayerNormArgs<'_>,
) {
    let count = values.len() as f32;
    let sum = |value: &mut f32, added: f32| {
        *value += added;
        *value
    };
    let mean = sum_of(values, added, sum) / count;
    let square = |value: &mut f32, _| {
        let deviation = *value - mean;
        deviation * deviation
    };
    let variance = sum_of(values, added, square) / count;
    let factor = 1.0 / (variance + weights.epsilon).sqrt();
    for ((value, scale), shift) in values.iter_mut().zip(weights.scale).zip(weights.shift) {
        *value = fma::<FUSED>((*value - mean) * factor, *scale, *shift);
    }
}

/// The sum of `function` over all pairs of values, always in the same order.
#[inline(always)]
fn sum_of(values: &mut [f32], others: &[f32], function: impl Fn(&mut f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let (lanes, rest) = values.as_chunks_mut::<LANES>();
    let (other_lanes, other_rest) = others.as_chunks::<LANES>();
    for (lanes, others) in lanes.iter_mut().zip(other_lanes) {
        for ((sum, value), other) in sums.iter_mut().zip(lanes).zip(others) {
            *sum += function(value, *other);
        }
    }
    for ((sum, value), other) in sums.iter_mut().zip(rest).zip(other_rest) {
        *sum += function(value, *other);
    }
    reduce(sums, |a, b| a + b)
}

/// Combines all lanes into one value, always in the same order.
#[inline(always)]
pub(crate) fn reduce(mut lanes: [f32; LANES], function: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = function(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests;
