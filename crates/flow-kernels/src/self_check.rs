//! Runs a small product before kernels are used, and compares it with plain arithmetic.
//!
//! AMX depends on more than the processor: the operating system and a hypervisor have to save its tiles. Kernels that
//! compute wrong results are skipped, which costs speed instead of wrong vectors.

use crate::activation::Activation;
use crate::activations::{Activations, Storage};
use crate::kernels::Kernels;
use crate::linear::Linear;

/// More than one tile in each dimension, and no whole number of tiles.
const ROWS: usize = 35;
const INPUTS: usize = 70;
const OUTPUTS: usize = 45;

/// Sums of small integers are exact, in any order and in either precision.
const ERROR_MAX: f32 = 0.0;

/// Whether a small product has the expected result.
pub(crate) fn passes(kernels: &Kernels) -> bool {
    let error = max_error(kernels);
    let passes = error <= ERROR_MAX;
    if !passes {
        let back_end = kernels.instruction_set().to_string();
        tracing::warn!(
            back_end,
            error,
            "back end failed its self-check and is not used"
        );
    }
    passes
}

fn max_error(kernels: &Kernels) -> f32 {
    let number = |n: usize| (n * 7 % 9) as f32 - 4.0;
    let weights: Vec<f32> = (0..OUTPUTS * INPUTS).map(|n| number(n + n / 11)).collect();
    let bias: Vec<f32> = (0..OUTPUTS).map(number).collect();
    let layer = Linear::new(kernels.pack(&weights, INPUTS), &bias, Activation::None);
    let mut states = Activations::new(INPUTS, Storage::Both);
    states.grow(ROWS);
    let mut all = states.rows_mut(0..ROWS);
    for row in 0..ROWS {
        for (column, value) in all.row(row).iter_mut().enumerate() {
            *value = number(row * 5 + column + column / 3);
        }
    }
    kernels.round_rows(&mut all);
    let mut out = Activations::new(OUTPUTS, Storage::F32);
    out.grow(ROWS);
    let panels = 0..layer.weights().panels();
    kernels.linear(
        &layer,
        panels,
        states.rows(0..ROWS),
        &mut out.rows_mut(0..ROWS),
    );
    let mut error = 0.0_f32;
    for row in 0..ROWS {
        let state = states.rows(row..row + 1).row(0);
        let outputs = weights.chunks_exact(INPUTS).zip(&bias);
        for ((weights, bias), actual) in outputs.zip(out.rows(row..row + 1).row(0)) {
            let sum: f32 = weights.iter().zip(state).map(|(a, b)| a * b).sum();
            error = error.max((sum + bias - actual).abs());
        }
    }
    error
}
