//! Loads a model: each tensor is read, packed and dropped in turn.

use flow_kernels::{Activation, Kernels, Linear};

use super::embeddings::EmbeddingTables;
use super::layer_norm::LayerNorm;
use super::model::{AttentionHeads, CpuLayer, CpuModel};
use crate::engine::size::ModelSize;
use crate::family::{LayerNormTensors, LayerPart, LinearTensors, ModelTensors};
use crate::weights::WeightsError;

/// Loads a model's tensors for some kernels.
///
/// # Errors
///
/// If they cannot be read.
pub(super) fn load(tensors: &ModelTensors<'_>, kernels: Kernels) -> Result<CpuModel, WeightsError> {
    let architecture = tensors.architecture;
    let loader = CpuModelLoader { tensors, kernels };
    let layers = (0..architecture.layers).map(|index| loader.layer(index));
    Ok(CpuModel {
        kernels,
        size: ModelSize::new(architecture),
        max_tokens: architecture.max_tokens(),
        heads: loader.heads()?,
        embeddings: loader.embeddings()?,
        layers: layers.collect::<Result<_, _>>()?,
    })
}

struct CpuModelLoader<'a> {
    tensors: &'a ModelTensors<'a>,
    kernels: Kernels,
}

impl CpuModelLoader<'_> {
    fn embeddings(&self) -> Result<EmbeddingTables, WeightsError> {
        let positions = self.tensors.position_embeddings()?;
        let norm = self.layer_norm(self.tensors.embeddings_norm()?);
        let words = self.tensors.word_embeddings()?;
        let precision = self.kernels.precision();
        Ok(EmbeddingTables::new(precision, words, &positions, norm))
    }

    fn heads(&self) -> Result<AttentionHeads, WeightsError> {
        let architecture = self.tensors.architecture;
        Ok(AttentionHeads {
            count: architecture.heads,
            size: architecture.hidden_size / architecture.heads,
            position_bias: self.tensors.position_bias()?,
            max_tokens: architecture.max_tokens(),
        })
    }

    fn layer(&self, index: usize) -> Result<CpuLayer, WeightsError> {
        let linear = |part, activation| {
            let tensors = self.tensors.linear(index, part)?;
            Ok(self.linear(&tensors, activation))
        };
        let norm = |part| Ok(self.layer_norm(self.tensors.layer_norm(index, part)?));
        Ok(CpuLayer {
            qkv: self.qkv(index)?,
            attention_output: linear(LayerPart::AttentionOutput, Activation::None)?,
            attention_norm: norm(LayerPart::AttentionNorm)?,
            mlp_up: linear(LayerPart::MlpUp, self.tensors.architecture.activation)?,
            mlp_down: linear(LayerPart::MlpDown, Activation::None)?,
            mlp_norm: norm(LayerPart::MlpNorm)?,
        })
    }

    /// Joins the layers of queries, keys and values into one, head after head.
    fn qkv(&self, index: usize) -> Result<Linear, WeightsError> {
        let architecture = self.tensors.architecture;
        let head_size = architecture.hidden_size / architecture.heads;
        let parts = self.tensors.qkv(index)?;
        let weights = parts.each_ref().map(|part| &part.weights[..]);
        let bias = parts.each_ref().map(|part| &part.bias[..]);
        let tensors = LinearTensors {
            weights: interleave_heads(&weights, head_size * architecture.hidden_size),
            bias: interleave_heads(&bias, head_size),
        };
        Ok(self.linear(&tensors, Activation::None))
    }

    fn linear(&self, tensors: &LinearTensors, activation: Activation) -> Linear {
        let LinearTensors { weights, bias } = tensors;
        let weights = self.kernels.pack(weights, weights.len() / bias.len());
        Linear::new(weights, bias, activation)
    }

    fn layer_norm(&self, tensors: LayerNormTensors) -> LayerNorm {
        LayerNorm::new(tensors, self.tensors.architecture.epsilon)
    }
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
