//! Models whose products are computed in 8-bit integers.
//!
//! The scales of weights depend on the states that a model really has. `calibration.rs` observes these with a few texts, in
//! 32-bit floats; `statistics.rs` sums up what it observes; `rounding.rs` turns a layer and its statistics into integers. As
//! this takes a second or more, `cache.rs` stores the integers in a file, from which the model is loaded the next time.

mod cache;
mod calibration;
pub(super) mod linear;
mod rounding;
mod statistics;
mod triangular;

use std::path::Path;

use flow_core::Chain;
use flow_kernels::{CpuPrecision, Kernels};

use self::linear::{Int8Layer, transpose};
use super::load;
use super::model::LinearPart;
use crate::engine::error::ModelError;
use crate::family::ModelTensors;
use crate::weights::WeightsError;

/// The integers of the model in `folder`: from the cache, or else from a calibration, whose result is put into the cache.
///
/// # Errors
///
/// If the weights or the tokenizer cannot be read. A cache that cannot be read or written only costs time.
pub(super) fn layers(
    tensors: &ModelTensors<'_>,
    (folder, cache): (&Path, Option<&Path>),
    kernels: Kernels,
) -> Result<Vec<Int8Layer>, ModelError> {
    let file = cache.and_then(|cache| cache::file(cache, folder));
    if let Some(layers) = file
        .as_ref()
        .and_then(|file| cache::read(file, tensors.architecture))
    {
        return Ok(layers);
    }
    let started = std::time::Instant::now();
    let layers = calibrate(tensors, folder, kernels)?;
    tracing::info!(
        seconds = started.elapsed().as_secs_f32(),
        "model calibrated for int8"
    );
    if let Some(file) = &file
        && let Err(error) = cache::write(file, &layers)
    {
        tracing::warn!(
            file = %file.display(),
            error = %Chain(&error),
            "calibration cannot be stored and will be repeated at the next start"
        );
    }
    Ok(layers)
}

fn calibrate(
    tensors: &ModelTensors<'_>,
    folder: &Path,
    kernels: Kernels,
) -> Result<Vec<Int8Layer>, ModelError> {
    let texts = calibration::tokens(folder, tensors.architecture.max_tokens())?;
    let kernels = kernels.with_precision(CpuPrecision::F32);
    let statistics = calibration::statistics(&load::load_floats(tensors, kernels)?, &texts);
    let layers = statistics.iter().enumerate().map(|(layer, statistics)| {
        let rounded = LinearPart::ALL.map(|part| {
            let linear = load::linear_tensors(tensors, layer, part)?;
            Ok(rounding::round(&linear, &statistics[part as usize]))
        });
        transpose(rounded)
    });
    Ok(layers.collect::<Result<_, WeightsError>>()?)
}
