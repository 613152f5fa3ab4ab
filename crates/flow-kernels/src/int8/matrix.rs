//! Weights as 8-bit integers.

use super::rotation::Rotation;

/// Largest magnitude of a weight.
const WEIGHT_MAX: f32 = 127.0;

/// A weight matrix of `outputs × inputs` in 8-bit integers.
///
/// The product of a row of states `x` with the weights of an output is `scale · Σ values · rotated(x · factors)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Matrix {
    /// The weights of each output, between -127 and 127.
    pub values: Vec<i8>,
    /// The scale of each output.
    pub scales: Vec<f32>,
    /// What each value of a state is multiplied by, before the state is rotated.
    pub factors: Vec<f32>,
}

impl Int8Matrix {
    /// Rounds each weight to the nearest integer. `weights` is a row-major matrix of `outputs × inputs`; `factors` has one
    /// positive factor for each input.
    ///
    /// # Panics
    ///
    /// If the length of `weights` is not a multiple of that of `factors`.
    #[must_use]
    pub fn round(weights: &[f32], factors: Vec<f32>) -> Self {
        assert!(weights.len().is_multiple_of(factors.len()), "whole outputs");
        let (mut values, mut scales) = (Vec::with_capacity(weights.len()), Vec::new());
        for row in weights.chunks_exact(factors.len()) {
            let row = Self::rotated(row, &factors);
            let scale = Self::scale(&row);
            values.extend(row.iter().map(|weight| Self::nearest(weight / scale)));
            scales.push(scale);
        }
        Self {
            values,
            scales,
            factors,
        }
    }

    /// The weights of one output, divided by `factors` and rotated.
    #[must_use]
    pub fn rotated(row: &[f32], factors: &[f32]) -> Vec<f32> {
        let mut row: Vec<f32> = row.iter().zip(factors).map(|(a, b)| a / b).collect();
        Rotation::of_width(factors.len()).rotate_weights(&mut row);
        row
    }

    /// The scale of an output with these weights: the largest becomes 127.
    #[must_use]
    pub fn scale(row: &[f32]) -> f32 {
        let largest = row
            .iter()
            .fold(0.0_f32, |max, weight| max.max(weight.abs()));
        largest.max(f32::MIN_POSITIVE) / WEIGHT_MAX
    }

    /// The nearest weight to a value in units of the scale.
    #[must_use]
    pub fn nearest(value: f32) -> i8 {
        // Adding this rounds to an integer, which is then in the low bits of the sum. A function of the C library, which
        // rounds on processors without SSE4.1, would take most of the time of loading a model.
        const ROUNDING_BIAS: f32 = 12_582_912.0;
        (value.clamp(-WEIGHT_MAX, WEIGHT_MAX) + ROUNDING_BIAS).to_bits() as i8
    }

    /// Number of values in a row of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.factors.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_rounded_to_the_nearest_integer_within_the_range() {
        for (value, expected) in [
            (0.0, 0),
            (0.5, 0),
            (1.5, 2),
            (-0.6, -1),
            (-126.7, -127),
            (200.0, 127),
            (-200.0, -127),
        ] {
            assert_eq!(Int8Matrix::nearest(value), expected, "{value}");
        }
    }
}
