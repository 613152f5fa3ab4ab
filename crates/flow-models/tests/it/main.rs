//! The model runtime with the real model and with tiny ones.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, in test helpers as well"
)]
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests report what they skip, and how close vectors are"
)]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
mod bad_input;
mod cancellation;
mod candle;
mod cross_encoder;
mod families;
mod fast;
mod fidelity;
mod gpu;
mod int8;
mod memory;
mod sources;
mod sparse_encoder;
mod text_classifier;
mod tiny_model;
mod token_vectors;
mod truncation;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flow_models::source::{self, DEFAULT_MODEL, SourceEnvironment};
use flow_models::{DeviceSpec, EncoderOptions, OpenDevices, TextEncoder};

/// The environment of this process, which points to the user's caches.
fn environment() -> SourceEnvironment {
    let variables: std::collections::BTreeMap<String, String> = std::env::vars().collect();
    SourceEnvironment::from_variables(|name| variables.get(name).cloned())
}

/// The folder of all-MiniLM-L6-v2, which is fetched on first use.
fn minilm() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        source::pull(DEFAULT_MODEL, None, &environment(), &mut ()).unwrap_or_else(|e| panic!("{e}"))
    })
}

fn load(folder: &Path, options: &EncoderOptions) -> TextEncoder {
    load_on(DeviceSpec::Cpu.open(CORES).unwrap(), folder, options)
}

const CORES: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn load_on(devices: OpenDevices, folder: &Path, options: &EncoderOptions) -> TextEncoder {
    TextEncoder::load(folder, options, devices).unwrap()
}

/// The CPU alone.
fn cpu() -> OpenDevices {
    OpenDevices::cpu(CORES, None)
}

/// The GPU of this machine, if it has a usable one.
fn real_gpu() -> Option<OpenDevices> {
    match DeviceSpec::Cuda(None).open(CORES) {
        Ok(opened) => Some(opened),
        Err(error) => {
            eprintln!("SKIPPED on a real GPU: {error}");
            None
        }
    }
}

/// The cosine of two vectors, in f64.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(&x, &y)| f64::from(x) * f64::from(y))
            .sum()
    };
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f32::max)
}
