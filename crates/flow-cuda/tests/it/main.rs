//! Tests the kernels and the encoder on an emulated GPU.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, in test helpers as well"
)]
#![allow(clippy::print_stderr, reason = "skipped tests report that")]

mod encoder;
mod models;
mod products;
mod random;
mod reference;

use std::sync::Arc;

use flow_cuda_emulator::{EmulatedGpu, EmulatorSettings};

/// An emulated GPU. `None` on a machine without a C++ compiler.
fn emulated_gpu(settings: EmulatorSettings) -> Option<Arc<EmulatedGpu>> {
    match EmulatedGpu::new(settings) {
        Ok(gpu) => Some(gpu),
        Err(error) if error.is_missing_tool() => {
            eprintln!("SKIPPED: {error}, so kernels cannot be emulated");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn cosine(a: &[f32], b: &[f64]) -> f64 {
    let a: Vec<f64> = a.iter().map(|value| f64::from(*value)).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(&a, b) / (dot(&a, &a).sqrt() * dot(b, b).sqrt())
}
