//! What the kernels compute and what the engine does with them, on an emulated device.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]
#![allow(clippy::print_stderr, reason = "tests that are skipped say so")]

mod engine;
mod models;
mod reference;
mod products;
mod random;

use std::sync::Arc;

use flow_cuda_emulator::{Emulator, Settings};

/// An emulated device; none on a machine without a compiler for it.
fn emulator(settings: Settings) -> Option<Arc<Emulator>> {
    match Emulator::new(settings) {
        Ok(emulator) => Some(emulator),
        Err(error) if error.is_lack() => {
            eprintln!("SKIPPED: {error}, so no kernel can be emulated");
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
