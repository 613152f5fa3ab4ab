//! A back end is tried before it is trusted.
//!
//! AMX depends on more than the processor: the system has to save its tiles, and so has whatever lies
//! between. A small product tells. One that comes out wrong costs speed then, and no wrong vectors.

use crate::activations::{Activations, Keeps};
use crate::kernels::Kernels;
use crate::linear::{Activation, Product};

/// More than a tile of everything, and whole tiles of nothing.
const ROWS: usize = 35;
const INPUTS: usize = 70;
const OUTPUTS: usize = 45;

/// Sums of small whole numbers are exact, in whatever order and from either format.
const WRONG_MAX: f32 = 0.0;

/// Whether a small product comes out right.
pub(crate) fn passes(kernels: &Kernels) -> bool {
    let wrong = largest_error(kernels);
    let passes = wrong <= WRONG_MAX;
    if !passes {
        let back_end = kernels.back_end().to_string();
        tracing::warn!(
            back_end,
            wrong,
            "back end computes wrongly here and is not used"
        );
    }
    passes
}

fn largest_error(kernels: &Kernels) -> f32 {
    let number = |at: usize| (at * 7 % 9) as f32 - 4.0;
    let weights: Vec<f32> = (0..OUTPUTS * INPUTS)
        .map(|at| number(at + at / 11))
        .collect();
    let bias: Vec<f32> = (0..OUTPUTS).map(number).collect();
    let product = Product::new(kernels.pack(&weights, INPUTS), &bias, Activation::None);
    let mut states = Activations::new(INPUTS, Keeps::Both);
    states.grow(ROWS);
    let mut all = states.rows_mut(0..ROWS);
    for row in 0..ROWS {
        for (at, value) in all.row(row).iter_mut().enumerate() {
            *value = number(row * 5 + at + at / 3);
        }
    }
    all.round(kernels);
    let mut out = Activations::new(OUTPUTS, Keeps::F32);
    out.grow(ROWS);
    let panels = 0..product.weights().panels();
    kernels.product(
        &product,
        panels,
        states.rows(0..ROWS),
        &mut out.rows_mut(0..ROWS),
    );
    let mut largest = 0.0_f32;
    for row in 0..ROWS {
        let state = states.rows(row..row + 1).row(0);
        let weights = weights.chunks_exact(INPUTS).zip(&bias);
        for ((weights, bias), got) in weights.zip(out.rows(row..row + 1).row(0)) {
            let sum: f32 = weights.iter().zip(state).map(|(a, b)| a * b).sum();
            largest = largest.max((sum + bias - got).abs());
        }
    }
    largest
}
