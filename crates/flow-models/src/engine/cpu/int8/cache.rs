//! Calibrated models in files, so that a model is calibrated once.
//!
//! A file holds the integers of all linear layers as safetensors. Its name is a hash of everything that they depend on: the
//! model's path, the size and the time of its weights, the calibration texts and the version of this program. A model that
//! has changed therefore has another file. Nothing removes old files.

use std::io;
use std::path::{Path, PathBuf};

use flow_core::Chain;
use flow_kernels::Int8Matrix;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sha2::Digest;

use super::calibration;
use super::linear::{Int8Layer, Int8Linear, transpose};
use crate::derived_file::{file_name, hash_weights, write_whole};
use crate::engine::cpu::model::LinearPart;
use crate::family::Architecture;
use crate::weights::{WeightsError, WeightsFile};

/// Folder within the cache.
const FOLDER: &str = "int8";

/// Changes when the same model and texts are turned into other integers.
const FORMAT: &str = "1";

/// A calibrated model could not be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("cannot write the file")]
    Write(#[from] io::Error),
    #[error("cannot encode the file")]
    Encode(#[from] safetensors::SafeTensorError),
}

/// The file of the model in `folder`. `None` if the model's weights cannot be examined.
pub(super) fn file(cache: &Path, folder: &Path) -> Option<PathBuf> {
    let mut hash = hash_weights(folder)?;
    hash.update(format!("{FORMAT}\n{}\n", env!("CARGO_PKG_VERSION")));
    hash.update(calibration::TEXTS);
    Some(cache.join(FOLDER).join(file_name(hash) + ".safetensors"))
}

/// The calibrated layers in a file. `None` if there is no such file, or it is damaged.
pub(super) fn read(file: &Path, architecture: &Architecture) -> Option<Vec<Int8Layer>> {
    if !file.exists() {
        return None;
    }
    read_layers(file, architecture)
        .inspect_err(|error| {
            tracing::warn!(file = %file.display(), error = %Chain(error), "calibration file is damaged; calibrating again");
        })
        .ok()
}

fn read_layers(file: &Path, architecture: &Architecture) -> Result<Vec<Int8Layer>, WeightsError> {
    let weights = WeightsFile::open(file)?;
    let layers = 0..architecture.layers;
    layers
        .map(|layer| read_layer(&weights, architecture, layer))
        .collect()
}

fn read_layer(
    weights: &WeightsFile,
    architecture: &Architecture,
    layer: usize,
) -> Result<Int8Layer, WeightsError> {
    transpose(LinearPart::ALL.map(|part| {
        let (outputs, inputs) = part.shape(architecture);
        let name = |tensor| tensor_name(layer, part, tensor);
        let read = |tensor, length| {
            weights.check(&name(tensor), &[length])?;
            weights.read(&name(tensor))
        };
        Ok(Int8Linear {
            matrix: Int8Matrix {
                values: weights.read_i8(&name("values"), &[outputs, inputs])?,
                scales: read("scales", outputs)?,
                factors: read("factors", inputs)?,
            },
            bias: read("bias", outputs)?,
        })
    }))
}

/// Writes a file, which appears complete or not at all.
///
/// # Errors
///
/// If the operating system refuses it.
pub(super) fn write(file: &Path, layers: &[Int8Layer]) -> Result<(), WriteError> {
    let mut tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (layer, linears) in layers.iter().enumerate() {
        for (part, linear) in LinearPart::ALL.into_iter().zip(linears) {
            let name = |tensor| tensor_name(layer, part, tensor);
            let matrix = &linear.matrix;
            let shape = vec![matrix.scales.len(), matrix.inputs()];
            let values = matrix
                .values
                .iter()
                .map(|value| value.to_le_bytes()[0])
                .collect();
            tensors.push((name("values"), Dtype::I8, shape, values));
            for (tensor, values) in [
                ("scales", &matrix.scales),
                ("factors", &matrix.factors),
                ("bias", &linear.bias),
            ] {
                let bytes = values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                tensors.push((name(tensor), Dtype::F32, vec![values.len()], bytes));
            }
        }
    }
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        Ok((
            name.as_str(),
            TensorView::new(*dtype, shape.clone(), bytes)?,
        ))
    });
    let views: Vec<_> = views.collect::<Result<_, safetensors::SafeTensorError>>()?;
    let bytes = safetensors::serialize(views, None)?;
    Ok(write_whole(file, &bytes)?)
}

fn tensor_name(layer: usize, part: LinearPart, tensor: &str) -> String {
    format!("{layer}.{part:?}.{tensor}")
}
