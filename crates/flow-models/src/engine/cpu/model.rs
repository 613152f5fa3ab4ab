//! The weights of a model, packed for the kernels.

use std::ops::Range;

use flow_kernels::{AttentionConfig, CpuPrecision, Kernels, Linear, PositionBias, Storage};

use super::embeddings::EmbeddingTables;
use super::layer_norm::LayerNorm;
use crate::engine::size::ModelSize;
use crate::family::Architecture;

/// A model's weights.
#[derive(Debug)]
pub(super) struct CpuModel {
    pub(super) kernels: Kernels,
    pub(super) size: ModelSize,
    pub(super) max_tokens: usize,
    pub(super) heads: AttentionHeads,
    pub(super) embeddings: EmbeddingTables,
    pub(super) layers: Vec<CpuLayer>,
}

/// The properties of attention that all layers share.
#[derive(Debug)]
pub(super) struct AttentionHeads {
    /// Number of heads.
    pub(super) count: usize,
    /// Values in a query, a key or a value.
    pub(super) size: usize,
    /// Values by head and distance; see [`PositionBias`].
    pub(super) position_bias: Option<Vec<f32>>,
    /// Maximum tokens of a text.
    pub(super) max_tokens: usize,
}

/// The weights of one layer.
#[derive(Debug)]
pub(super) struct CpuLayer {
    /// Query, key and value, head after head.
    pub(super) qkv: Linear,
    pub(super) attention_output: Linear,
    pub(super) attention_norm: LayerNorm,
    pub(super) mlp_up: Linear,
    pub(super) mlp_down: Linear,
    pub(super) mlp_norm: LayerNorm,
}

/// The linear layers of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinearPart {
    Qkv,
    AttentionOutput,
    MlpUp,
    MlpDown,
}

impl LinearPart {
    /// All parts, in the order of their numbers.
    pub(super) const ALL: [Self; 4] =
        [Self::Qkv, Self::AttentionOutput, Self::MlpUp, Self::MlpDown];

    /// Number of outputs and inputs.
    pub(super) fn shape(self, architecture: &Architecture) -> (usize, usize) {
        let (hidden, intermediate) = (architecture.hidden_size, architecture.intermediate_size);
        match self {
            Self::Qkv => (3 * hidden, hidden),
            Self::AttentionOutput => (hidden, hidden),
            Self::MlpUp => (intermediate, hidden),
            Self::MlpDown => (hidden, intermediate),
        }
    }
}

impl CpuModel {
    /// Size of all weights in bytes.
    pub(super) fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().map(CpuLayer::weight_bytes);
        self.embeddings.bytes() + layers.sum::<usize>()
    }

    /// How states are stored that only linear layers read.
    pub(super) fn operand_storage(&self) -> Storage {
        match self.kernels.precision() {
            // Products turn 32-bit floats into 8-bit integers themselves.
            CpuPrecision::F32 | CpuPrecision::Int8 => Storage::F32,
            CpuPrecision::Bf16 => Storage::Bf16,
        }
    }

    /// How queries, keys and values are stored.
    pub(super) fn qkv_storage(&self) -> Storage {
        if self.kernels.attends_in_bf16() {
            Storage::Bf16
        } else {
            Storage::F32
        }
    }

    /// How states are stored that linear layers and residual connections read.
    pub(super) fn residual_storage(&self) -> Storage {
        match self.kernels.precision() {
            CpuPrecision::F32 | CpuPrecision::Int8 => Storage::F32,
            CpuPrecision::Bf16 => Storage::Both,
        }
    }
}

impl CpuLayer {
    /// Size of the matrices in bytes. Biases and layer norms are a thousandth of it.
    fn weight_bytes(&self) -> usize {
        let layers = LinearPart::ALL.map(|part| self.linear(part).weights().bytes());
        layers.iter().sum()
    }

    pub(super) fn linear(&self, part: LinearPart) -> &Linear {
        match part {
            LinearPart::Qkv => &self.qkv,
            LinearPart::AttentionOutput => &self.attention_output,
            LinearPart::MlpUp => &self.mlp_up,
            LinearPart::MlpDown => &self.mlp_down,
        }
    }
}

impl AttentionHeads {
    /// The attention of a range of heads.
    pub(super) fn attention(&self, heads: &Range<usize>) -> AttentionConfig<'_> {
        let position_bias = self.position_bias.as_ref().map(|values| {
            let distances = 2 * self.max_tokens - 1;
            PositionBias {
                values: &values[heads.start * distances..heads.end * distances],
                max_tokens: self.max_tokens,
            }
        });
        AttentionConfig {
            heads: heads.len(),
            head_size: self.size,
            scale: 1.0 / (self.size as f32).sqrt(),
            position_bias,
        }
    }
}
