//! Loads a model: each tensor is read, packed and dropped in turn.

use flow_kernels::{Activation, Kernels, Linear};

use super::embeddings::EmbeddingTables;
use super::int8::linear::Int8Layer;
use super::layer_norm::LayerNorm;
use super::model::{AttentionHeads, CpuLayer, CpuModel, LinearPart};
use crate::engine::size::ModelSize;
use crate::family::{LayerPart, LinearTensors, ModelTensors};
use crate::weights::WeightsError;

/// Loads a model's tensors for kernels that multiply floats.
///
/// # Errors
///
/// If they cannot be read.
pub(super) fn load_floats(
    tensors: &ModelTensors<'_>,
    kernels: Kernels,
) -> Result<CpuModel, WeightsError> {
    load(tensors, kernels, |layer, part| {
        let LinearTensors { weights, bias } = linear_tensors(tensors, layer, part)?;
        let weights = kernels.pack(&weights, weights.len() / bias.len());
        Ok(Linear::new(weights, &bias, activation(tensors, part)))
    })
}

/// Loads a model for kernels that multiply 8-bit integers.
///
/// # Errors
///
/// If the tensors cannot be read.
pub(super) fn load_int8(
    tensors: &ModelTensors<'_>,
    kernels: Kernels,
    layers: &[Int8Layer],
) -> Result<CpuModel, WeightsError> {
    load(tensors, kernels, |layer, part| {
        Ok(layers[layer][part as usize].pack(&kernels, activation(tensors, part)))
    })
}

/// Loads a model whose linear layers `linear` makes.
fn load(
    tensors: &ModelTensors<'_>,
    kernels: Kernels,
    linear: impl Fn(usize, LinearPart) -> Result<Linear, WeightsError>,
) -> Result<CpuModel, WeightsError> {
    let architecture = tensors.architecture;
    let norm = |tensors| LayerNorm::new(tensors, architecture.epsilon);
    let layer = |index| {
        Ok(CpuLayer {
            qkv: linear(index, LinearPart::Qkv)?,
            attention_output: linear(index, LinearPart::AttentionOutput)?,
            attention_norm: norm(tensors.layer_norm(index, LayerPart::AttentionNorm)?),
            mlp_up: linear(index, LinearPart::MlpUp)?,
            mlp_down: linear(index, LinearPart::MlpDown)?,
            mlp_norm: norm(tensors.layer_norm(index, LayerPart::MlpNorm)?),
        })
    };
    let positions = tensors.position_embeddings()?;
    let positions = (&positions[..], tensors.second_token_type()?);
    let words = tensors.word_embeddings()?;
    let embeddings_norm = norm(tensors.embeddings_norm()?);
    Ok(CpuModel {
        kernels,
        size: ModelSize::new(architecture),
        max_tokens: architecture.max_tokens(),
        heads: heads(tensors)?,
        embeddings: EmbeddingTables::new(kernels.precision(), words, positions, embeddings_norm),
        layers: (0..architecture.layers)
            .map(layer)
            .collect::<Result<_, _>>()?,
    })
}

fn heads(tensors: &ModelTensors<'_>) -> Result<AttentionHeads, WeightsError> {
    let architecture = tensors.architecture;
    Ok(AttentionHeads {
        count: architecture.heads,
        size: architecture.hidden_size / architecture.heads,
        position_bias: tensors.position_bias()?,
        max_tokens: architecture.max_tokens(),
    })
}

fn activation(tensors: &ModelTensors<'_>, part: LinearPart) -> Activation {
    match part {
        LinearPart::MlpUp => tensors.architecture.activation,
        LinearPart::Qkv | LinearPart::AttentionOutput | LinearPart::MlpDown => Activation::None,
    }
}

/// The weights and bias of a linear layer.
///
/// # Errors
///
/// If they cannot be read.
pub(super) fn linear_tensors(
    tensors: &ModelTensors<'_>,
    layer: usize,
    part: LinearPart,
) -> Result<LinearTensors, WeightsError> {
    match part {
        LinearPart::Qkv => qkv(tensors, layer),
        LinearPart::AttentionOutput => tensors.linear(layer, LayerPart::AttentionOutput),
        LinearPart::MlpUp => tensors.linear(layer, LayerPart::MlpUp),
        LinearPart::MlpDown => tensors.linear(layer, LayerPart::MlpDown),
    }
}

/// Joins the layers of queries, keys and values into one, head after head.
fn qkv(tensors: &ModelTensors<'_>, layer: usize) -> Result<LinearTensors, WeightsError> {
    let architecture = tensors.architecture;
    let head_size = architecture.hidden_size / architecture.heads;
    let parts = tensors.qkv(layer)?;
    let weights = parts.each_ref().map(|part| &part.weights[..]);
    let bias = parts.each_ref().map(|part| &part.bias[..]);
    Ok(LinearTensors {
        weights: interleave_heads(&weights, head_size * architecture.hidden_size),
        bias: interleave_heads(&bias, head_size),
    })
}

/// Puts the query, key and value of the first head first, then those of the second head, and so on. `length` is the number
/// of values of one head in each part.
fn interleave_heads(parts: &[&[f32]; 3], length: usize) -> Vec<f32> {
    let heads = parts[0].len() / length;
    let of_head = |head: usize| {
        let parts = parts.iter();
        parts.map(move |part| &part[head * length..][..length])
    };
    (0..heads).flat_map(of_head).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_follow_each_other_with_all_their_parts() {
        let parts: [&[f32]; 3] = [&[1.0, 2.0], &[3.0, 4.0], &[5.0, 6.0]];
        assert_eq!(interleave_heads(&parts, 1), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    }
}
