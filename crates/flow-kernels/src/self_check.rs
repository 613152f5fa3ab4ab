//! Runs a small product before kernels are used, and compares it with plain arithmetic.
//!
//! AMX depends on more than the processor: the operating system and a hypervisor have to save its tiles. Kernels that
//! compute wrong results are skipped, which costs speed instead of wrong vectors.
//!
//! Products of 8-bit integers have no simple exact result, because weights and states are scaled. They are compared with those
//! of the portable kernels.

use crate::activation::Activation;
use crate::activations::{Activations, Storage};
use crate::kernels::Kernels;
use crate::linear::Linear;
use crate::precision::CpuPrecision;

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

/// The small product.
struct Example {
    states: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

fn max_error(kernels: &Kernels) -> f32 {
    let example = Example::new();
    let expected = match kernels.precision() {
        CpuPrecision::F32 | CpuPrecision::Bf16 => example.sums(),
        CpuPrecision::Int8 => example.product(&Kernels::portable(CpuPrecision::Int8)),
    };
    let actual = example.product(kernels);
    let errors = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
    errors.fold(0.0, f32::max)
}

impl Example {
    fn new() -> Self {
        let number = |n: usize| (n * 7 % 9) as f32 - 4.0;
        let state = |n: usize| (n / INPUTS * 5) + n % INPUTS + n % INPUTS / 3;
        Self {
            states: (0..ROWS * INPUTS).map(|n| number(state(n))).collect(),
            weights: (0..OUTPUTS * INPUTS).map(|n| number(n + n / 11)).collect(),
            bias: (0..OUTPUTS).map(number).collect(),
        }
    }

    /// The product, row after row, as kernels compute it.
    fn product(&self, kernels: &Kernels) -> Vec<f32> {
        let weights = kernels.pack(&self.weights, INPUTS);
        let layer = Linear::new(weights, &self.bias, Activation::None);
        let mut states = Activations::new(INPUTS, Storage::Both);
        states.grow(ROWS);
        let mut all = states.rows_mut(0..ROWS);
        for (row, values) in self.states.chunks_exact(INPUTS).enumerate() {
            all.row(row).copy_from_slice(values);
        }
        kernels.round_rows(&mut all);
        let mut out = Activations::new(OUTPUTS, Storage::F32);
        out.grow(ROWS);
        let panels = 0..layer.weights().panels();
        let all = states.rows(0..ROWS);
        kernels.linear(&layer, panels, all, &mut out.rows_mut(0..ROWS));
        let out = out.rows(0..ROWS);
        (0..ROWS).flat_map(|row| out.row(row)).copied().collect()
    }

    /// The product in plain arithmetic.
    fn sums(&self) -> Vec<f32> {
        let value = |state: &[f32], (weights, bias): (&[f32], &f32)| {
            weights.iter().zip(state).map(|(a, b)| a * b).sum::<f32>() + bias
        };
        let outputs = || self.weights.chunks_exact(INPUTS).zip(&self.bias);
        let states = self.states.chunks_exact(INPUTS);
        states
            .flat_map(|state| outputs().map(move |output| value(state, output)))
            .collect()
    }
}
