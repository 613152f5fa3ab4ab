//! Rounds the weights of a linear layer to 8-bit integers so that its results change as little as possible.
//!
//! Three things keep the error small, besides the rotation of the kernels:
//!
//! - States are multiplied by a factor for each input, and weights divided by it (Xiao et al., *SmoothQuant*, 2023). With
//!   rotated values, the sum of both errors is smallest if the factors make states and weights equally large.
//! - Weights are rounded one input after the other. The error of each is compensated by the weights of the same block that
//!   follow, as far as their inputs are correlated (Frantar et al., *GPTQ*, 2023).
//! - The mean error that is left is subtracted from the bias.

use flow_kernels::{Int8Matrix, Rotation};

use super::linear::Int8Linear;
use super::statistics::InputStatistics;
use super::triangular;
use crate::family::LinearTensors;

/// Added to the diagonal of a block's products, relative to its mean, so that inputs that vary little among the calibration
/// texts are not trusted to compensate errors for other texts.
const DAMPING: f64 = 0.1;

/// Magnitudes below this are noise.
const MAGNITUDE_MIN: f32 = 1e-6;

pub(super) fn round(tensors: &LinearTensors, statistics: &InputStatistics) -> Int8Linear {
    let factors = factors(tensors, statistics);
    let (inputs, block) = (factors.len(), Rotation::of_width(factors.len()).block());
    let compensations: Vec<Vec<f32>> = statistics
        .rotated_products(&factors)
        .map(|products| compensation(products, block))
        .collect();
    let mut means: Vec<f32> = statistics
        .means()
        .iter()
        .zip(&factors)
        .map(|(a, b)| a * b)
        .collect();
    Rotation::of_width(inputs).rotate_states(&mut means);
    let mut linear = Int8Linear {
        matrix: Int8Matrix {
            values: Vec::with_capacity(tensors.weights.len()),
            scales: Vec::with_capacity(tensors.bias.len()),
            factors: factors.clone(),
        },
        bias: Vec::with_capacity(tensors.bias.len()),
    };
    for (row, bias) in tensors.weights.chunks_exact(inputs).zip(&tensors.bias) {
        let row = Int8Matrix::rotated(row, &factors);
        let scale = Int8Matrix::scale(&row);
        let blocks = row.chunks_exact(block).zip(&compensations);
        let values: Vec<i8> = blocks
            .flat_map(|(weights, compensation)| round_block(weights, scale, compensation))
            .collect();
        let errors = row
            .iter()
            .zip(&values)
            .map(|(weight, value)| weight - f32::from(*value) * scale);
        let mean_error: f32 = errors.zip(&means).map(|(error, mean)| error * mean).sum();
        linear.matrix.values.extend(values);
        linear.matrix.scales.push(scale);
        linear.bias.push(bias + mean_error);
    }
    linear
}

/// What states are multiplied by: the factors that make each input's states as large as its weights.
fn factors(tensors: &LinearTensors, statistics: &InputStatistics) -> Vec<f32> {
    let states = statistics.magnitudes();
    let mut squares = vec![0.0_f32; states.len()];
    for row in tensors.weights.chunks_exact(states.len()) {
        squares
            .iter_mut()
            .zip(row)
            .for_each(|(sum, weight)| *sum += weight * weight);
    }
    let outputs = tensors.bias.len() as f32;
    let weights = squares.iter().map(|square| (square / outputs).sqrt());
    let ratio = |(weight, state): (f32, &f32)| (weight + MAGNITUDE_MIN) / (state + MAGNITUDE_MIN);
    weights.zip(&states).map(ratio).map(f32::sqrt).collect()
}

/// How much of an input's error each later input compensates: row by row, for a block with these mean products.
fn compensation(mut products: Vec<f64>, size: usize) -> Vec<f32> {
    let mean = products.iter().step_by(size + 1).sum::<f64>() / size as f64;
    let damping = DAMPING * mean + f64::MIN_POSITIVE.sqrt();
    products
        .iter_mut()
        .step_by(size + 1)
        .for_each(|square| *square += damping);
    let factor = triangular::inverse(&triangular::factor(&products, size), size);
    let rows = factor.chunks_exact(size).enumerate();
    rows.flat_map(|(index, row)| row.iter().map(move |value| (value / row[index]) as f32))
        .collect()
}

/// Rounds the weights of one block.
fn round_block(weights: &[f32], scale: f32, compensation: &[f32]) -> Vec<i8> {
    let mut weights = weights.to_vec();
    let mut values = Vec::with_capacity(weights.len());
    for (index, compensation) in compensation.chunks_exact(weights.len()).enumerate() {
        let value = Int8Matrix::nearest(weights[index] / scale);
        let error = weights[index] - f32::from(value) * scale;
        for (weight, share) in weights[index + 1..]
            .iter_mut()
            .zip(&compensation[index + 1..])
        {
            *weight -= error * share;
        }
        values.push(value);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products of four inputs of which the last two are nearly equal.
    const PRODUCTS: [f64; 16] = [
        1.0, 0.0, 0.0, 0.0, //
        0.0, 1.0, 0.0, 0.0, //
        0.0, 0.0, 1.0, 0.9, //
        0.0, 0.0, 0.9, 1.0,
    ];

    #[test]
    fn an_error_is_compensated_by_a_later_input_that_is_correlated_with_it() {
        let compensation = compensation(PRODUCTS.to_vec(), 4);
        // Rounded one by one, the last two weights would become 10 and 20.
        let weights = [1.4, 2.4, 10.4, 20.4];
        assert_eq!(round_block(&weights, 1.0, &compensation), [1, 2, 10, 21]);
    }

    #[test]
    fn the_share_of_an_error_is_the_least_squares_one() {
        let compensation = compensation(PRODUCTS.to_vec(), 4);
        // An error e of the third weight is compensated best by −e · 0.9 / 1.1, with the damping on the diagonal.
        let share = -compensation[2 * 4 + 3];
        assert!((share - 0.9 / 1.1).abs() < 1e-6, "{share}");
        assert_eq!(compensation[1], 0.0);
    }
}
