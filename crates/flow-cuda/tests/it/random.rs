//! Pseudo-random numbers and reference functions.

use flow_cuda::GpuPrecision;

/// A linear congruential generator, whose numbers are the same on every machine.
pub(crate) struct Random(u32);

impl Random {
    pub(crate) fn new(seed: u32) -> Self {
        Self(seed)
    }

    /// The next number, between -1 and 1.
    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn values(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.next() * scale).collect()
    }
}

/// Rounds a value to a precision, by arithmetic instead of bit operations.
pub(crate) fn rounded(value: f32, precision: GpuPrecision) -> f64 {
    let value = f64::from(value);
    let bits = match precision {
        GpuPrecision::F32 => return value,
        GpuPrecision::Tf32 | GpuPrecision::F16 => 10,
        GpuPrecision::Bf16 => 7,
    };
    let exponent = value.abs().log2().floor() as i32;
    let exponent_min = if precision == GpuPrecision::F16 {
        -14
    } else {
        -126
    };
    let unit = 2f64.powi(exponent.max(exponent_min) - bits);
    let steps = value / unit;
    let steps = match precision {
        // Ties go away from zero.
        GpuPrecision::Tf32 => steps.round(),
        _ => steps.round_ties_even(),
    };
    if value == 0.0 { 0.0 } else { steps * unit }
}

/// The maximum relative error of rounding to a precision.
pub(crate) fn half_unit(precision: GpuPrecision) -> f64 {
    match precision {
        GpuPrecision::F32 | GpuPrecision::Tf32 => 2f64.powi(-24),
        GpuPrecision::F16 => 2f64.powi(-11),
        GpuPrecision::Bf16 => 2f64.powi(-8),
    }
}

/// GELU with the error function.
pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// The error function as a power series, which is accurate up to 5. Beyond that, it is 1.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}
