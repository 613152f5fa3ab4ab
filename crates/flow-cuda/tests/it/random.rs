//! Numbers that are the same on every machine.

use flow_cuda::Format;

/// A linear congruential generator.
pub(crate) struct Seeded(u32);

impl Seeded {
    pub(crate) fn new(seed: u32) -> Self {
        Self(seed)
    }

    /// From -1 to 1.
    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn values(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.next() * scale).collect()
    }
}

/// The number that a format has for a value, exactly; by cutting the fraction in halves, not by bits.
pub(crate) fn rounded(value: f32, format: Format) -> f64 {
    let value = f64::from(value);
    let bits = match format {
        Format::F32 => return value,
        Format::Tf32 | Format::F16 => 10,
        Format::Bf16 => 7,
    };
    let exponent = value.abs().log2().floor() as i32;
    let least = if format == Format::F16 { -14 } else { -126 };
    let unit = 2f64.powi(exponent.max(least) - bits);
    let steps = value / unit;
    let steps = match format {
        // Away from 0 where there are two.
        Format::Tf32 => steps.round(),
        _ => steps.round_ties_even(),
    };
    if value == 0.0 { 0.0 } else { steps * unit }
}

/// Half of the distance between neighbours, as a part of the number.
pub(crate) fn half_unit(format: Format) -> f64 {
    match format {
        Format::F32 | Format::Tf32 => 2f64.powi(-24),
        Format::F16 => 2f64.powi(-11),
        Format::Bf16 => 2f64.powi(-8),
    }
}

/// The error function's GELU, in 64-bit floats.
pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// By its series, which converges everywhere and is exact enough up to 5; from there on it is 1.
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
