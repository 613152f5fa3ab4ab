//! What works on single values: soft-max, GELU, layer norm, rounding.
//!
//! Written once, without instructions, in loops that a compiler turns into vectors; then compiled once for
//! each set of instructions. All of it is in 32-bit floats.

use crate::bf16;

/// Values that sums and maxima are kept for side by side: one AVX-512 register.
const LANES: usize = 16;

/// Some rows of values: each has `width`, and begins `stride` after the one before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
}

/// What changes values where they are.
///
/// # Safety
/// The machine has the instructions that the function was compiled for.
pub(crate) type Change = unsafe fn(&mut [f32], Shape);
/// # Safety
/// As for [`Change`].
pub(crate) type SoftMax = unsafe fn(&mut [f32], Shape, f32, &mut [f32]);
/// # Safety
/// As for [`Change`].
pub(crate) type Scale = unsafe fn(&mut [f32], Shape, &[f32]);
/// # Safety
/// As for [`Change`].
pub(crate) type AddNorm = unsafe fn(&mut [f32], &[f32], &Norm<'_>);
/// # Safety
/// As for [`Change`].
pub(crate) type Round = unsafe fn(&[f32], Shape, &mut [u16], usize);

/// The functions of one back end.
#[derive(Clone, Copy)]
pub(crate) struct Elementwise {
    pub(crate) soft_max: SoftMax,
    pub(crate) scale: Scale,
    pub(crate) gelu: Change,
    pub(crate) gelu_tanh: Change,
    pub(crate) relu: Change,
    pub(crate) add_norm: AddNorm,
    pub(crate) round: Round,
}

/// What a layer norm knows beside the values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
    pub(crate) epsilon: f32,
}

/// Compiles the functions for a set of instructions.
macro_rules! elementwise {
    ($name:ident, $fused:literal $(, $features:literal)?) => {
        pub(crate) mod $name {
            use super::*;

            pub(crate) const TABLE: Elementwise = Elementwise {
                soft_max,
                scale,
                gelu,
                gelu_tanh,
                relu,
                add_norm,
                round,
            };

            $(#[target_feature(enable = $features)])?
            fn soft_max(rows: &mut [f32], shape: Shape, by: f32, factors: &mut [f32]) {
                for (row, factor) in rows.chunks_mut(shape.stride).zip(&mut factors[..shape.rows]) {
                    *factor = super::soft_max::<$fused>(row, shape.width, by);
                }
            }

            $(#[target_feature(enable = $features)])?
            fn scale(values: &mut [f32], shape: Shape, factors: &[f32]) {
                let shape_of_row = Shape { rows: 1, ..shape };
                for (row, factor) in values.chunks_mut(shape.stride).zip(&factors[..shape.rows]) {
                    each(row, shape_of_row, |value| value * factor);
                }
            }

            $(#[target_feature(enable = $features)])?
            fn gelu(values: &mut [f32], shape: Shape) {
                each(values, shape, super::gelu::<$fused>);
            }

            $(#[target_feature(enable = $features)])?
            fn gelu_tanh(values: &mut [f32], shape: Shape) {
                each(values, shape, super::gelu_tanh::<$fused>);
            }

            $(#[target_feature(enable = $features)])?
            fn relu(values: &mut [f32], shape: Shape) {
                each(values, shape, |value| at_least(value, 0.0));
            }

            $(#[target_feature(enable = $features)])?
            fn add_norm(values: &mut [f32], added: &[f32], norm: &Norm<'_>) {
                super::add_norm::<$fused>(values, added, norm);
            }

            $(#[target_feature(enable = $features)])?
            fn round(values: &[f32], shape: Shape, rounded: &mut [u16], stride: usize) {
                super::round(values, shape, rounded, stride);
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

// Loops over whole lanes have a known length, which leaves the compiler no rest to do one by one.

/// Makes of each value what `function` says.
#[inline(always)]
fn each(values: &mut [f32], shape: Shape, function: impl Fn(f32) -> f32) {
    for row in 0..shape.rows {
        let row = &mut values[row * shape.stride..][..shape.width];
        let (lanes, rest) = row.as_chunks_mut::<LANES>();
        for lanes in lanes {
            lanes.iter_mut().for_each(|value| *value = function(*value));
        }
        rest.iter_mut().for_each(|value| *value = function(*value));
    }
}

/// Puts the bf16 of each value into rows that begin `stride` after each other.
#[inline(always)]
fn round(values: &[f32], shape: Shape, rounded: &mut [u16], stride: usize) {
    for row in 0..shape.rows {
        let from = &values[row * shape.stride..][..shape.width];
        // This loop is turned into vectors as a whole, not lane by lane.
        for (to, from) in rounded[row * stride..].iter_mut().zip(from) {
            *to = bf16::round(*from);
        }
    }
}

/// `a * b + c`, in one rounding where the machine does so quickly.
#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

// `f32::max` and `f32::min` ask what to do about values that are no numbers; these do not.
#[inline(always)]
fn at_least(value: f32, low: f32) -> f32 {
    if value > low { value } else { low }
}

#[inline(always)]
fn at_most(value: f32, high: f32) -> f32 {
    if value < high { value } else { high }
}

/// Adding it rounds to whole numbers, and leaves them in the low bits.
const ROUNDER: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Beyond these, powers of two are no longer normal numbers.
const EXP_MIN: f32 = -87.0;
const EXP_MAX: f32 = 88.0;

/// The exponential function, right to two units in the last place (Cephes' polynomial).
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    let x = at_most(at_least(x, EXP_MIN), EXP_MAX);
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, ROUNDER);
    let power = shifted - ROUNDER;
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

/// The error function as a quotient of polynomials, right to 4 × 10⁻⁷ (the coefficients are Eigen's).
#[inline(always)]
fn erf<const FUSED: bool>(x: f32) -> f32 {
    // From here on it is 1 in 32-bit floats.
    let x = at_most(at_least(x, -4.0), 4.0);
    let square = x * x;
    let mut over = -2.726_142e-10;
    for coefficient in [
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_5e-5,
        -7.349_906e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ] {
        over = fma::<FUSED>(over, square, coefficient);
    }
    let mut under = -1.456_607_2e-5;
    for coefficient in [
        -2.133_740_6e-4,
        -1.682_827e-3,
        -7.373_329_2e-3,
        -1.426_473_9e-2,
    ] {
        under = fma::<FUSED>(under, square, coefficient);
    }
    x * over / under
}

#[inline(always)]
fn gelu<const FUSED: bool>(x: f32) -> f32 {
    let half = 0.5 * x;
    fma::<FUSED>(
        half,
        erf::<FUSED>(x * std::f32::consts::FRAC_1_SQRT_2),
        half,
    )
}

/// GELU with a hyperbolic tangent instead of the error function.
#[inline(always)]
fn gelu_tanh<const FUSED: bool>(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let inner = SQRT_2_OVER_PI * fma::<FUSED>(0.044_715 * x * x, x, x);
    // x · (1 + tanh u) / 2 = x / (1 + exp(−2u))
    x / (1.0 + exp::<FUSED>(-2.0 * inner))
}

/// Makes the first `count` values of `row` those of a soft-max over `by` times themselves, but for a
/// factor, which is returned. The row is as long as whole lanes; what stands behind `count` means nothing.
#[inline(always)]
fn soft_max<const FUSED: bool>(row: &mut [f32], count: usize, by: f32) -> f32 {
    // Low enough to become nothing, and far from what overflows.
    const NOTHING: f32 = -1e30;
    let (lanes, _) = row[..count.next_multiple_of(LANES)].as_chunks_mut::<LANES>();
    let (last, rest) = (lanes.len() - 1, count - (lanes.len() - 1) * LANES);
    // All of them are written: what reads them would wait for single values that lie in the same lanes.
    for (lane, value) in lanes[last].iter_mut().enumerate() {
        *value = if lane < rest { *value } else { NOTHING };
    }
    let mut largest = [NOTHING; LANES];
    for chunk in &*lanes {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            *largest = at_least(*value, *largest);
        }
    }
    let largest = reduce(largest, at_least);
    let mut sums = [0.0; LANES];
    for chunk in lanes {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *value = exp::<FUSED>((*value - largest) * by);
            *sum += *value;
        }
    }
    1.0 / reduce(sums, |a, b| a + b)
}

/// Adds `added` to `values`, and gives the sums the mean 0 and the variance 1, then scale and shift.
#[inline(always)]
fn add_norm<const FUSED: bool>(values: &mut [f32], added: &[f32], norm: &Norm<'_>) {
    let count = values.len() as f32;
    let sum = |value: &mut f32, added: f32| {
        *value += added;
        *value
    };
    let mean = total(values, added, sum) / count;
    let square = |value: &mut f32, _| {
        let off = *value - mean;
        off * off
    };
    let variance = total(values, added, square) / count;
    let by = 1.0 / (variance + norm.epsilon).sqrt();
    for ((value, scale), shift) in values.iter_mut().zip(norm.scale).zip(norm.shift) {
        *value = fma::<FUSED>((*value - mean) * by, *scale, *shift);
    }
}

/// The sum of what `function` makes of each pair, always in the same order.
#[inline(always)]
fn total(values: &mut [f32], others: &[f32], function: impl Fn(&mut f32, f32) -> f32) -> f32 {
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

/// One value of all lanes, always in the same order.
#[inline(always)]
fn reduce(mut lanes: [f32; LANES], function: impl Fn(f32, f32) -> f32) -> f32 {
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
