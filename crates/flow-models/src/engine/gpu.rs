//! Models on NVIDIA GPUs. Each GPU has all weights, and a batch goes to the GPU with the fewest batches in flight.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow_cuda::{
    Activation, CudaEncoder, EmbeddingWeights, Gpu, GpuError, GpuPrecision, LayerNormWeights,
    LayerWeights, LinearWeights, ModelLoader, ModelShape, STREAMS, TokenIds,
};

use super::error::ModelError;
use super::size::ModelSize;
use crate::family::{Architecture, LayerNormTensors, LayerPart, LinearTensors, ModelTensors};
use crate::pooling::{PoolingHead, PoolingMode};
use crate::tokens::TokenBatch;
use crate::weights::WeightsError;

/// A model on one or more GPUs.
#[derive(Debug)]
pub struct GpuEngine {
    // Never empty.
    gpus: Vec<GpuReplica>,
    size: ModelSize,
    max_tokens: usize,
    precision: GpuPrecision,
}

/// What identifies a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuId {
    /// Its number and its name, such as `cuda:0 NVIDIA H200`.
    pub name: String,
    /// Its UUID, such as `GPU-1b2c…`, which does not depend on the numbering.
    pub uuid: String,
}

/// A model on one GPU, and the number of its batches in flight.
#[derive(Debug)]
struct GpuReplica {
    encoder: CudaEncoder,
    in_flight: AtomicUsize,
}

/// Counts a batch as in flight until it is dropped.
struct InFlightGuard<'a>(&'a AtomicUsize);

impl GpuEngine {
    /// Loads a model's tensors onto each of `gpus`, of which there must be at least one.
    ///
    /// # Errors
    ///
    /// If the tensors cannot be read, or a GPU fails, has too little memory, or cannot compute the model.
    pub(super) fn load(
        tensors: &ModelTensors<'_>,
        gpus: &[Arc<dyn Gpu>],
        precision: GpuPrecision,
    ) -> Result<Self, ModelError> {
        let load = |gpu| {
            Ok(GpuReplica {
                encoder: load(tensors, gpu, precision)?,
                in_flight: AtomicUsize::new(0),
            })
        };
        Ok(Self {
            gpus: gpus.iter().map(load).collect::<Result<_, ModelError>>()?,
            size: ModelSize::new(tensors.architecture),
            max_tokens: tensors.architecture.max_tokens(),
            precision,
        })
    }

    pub(super) fn size(&self) -> ModelSize {
        self.size
    }

    /// Maximum tokens of a text.
    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The names of the GPUs.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.gpus.iter().map(|gpu| gpu.encoder.gpu().name());
        names.collect()
    }

    /// The GPUs, without emulated ones.
    #[must_use]
    pub fn ids(&self) -> Vec<GpuId> {
        let id = |replica: &GpuReplica| {
            let gpu = replica.encoder.gpu();
            let (name, uuid) = (gpu.name(), gpu.uuid()?);
            Some(GpuId { name, uuid })
        };
        self.gpus.iter().filter_map(id).collect()
    }

    /// The precision of matrix products.
    #[must_use]
    pub fn precision(&self) -> GpuPrecision {
        self.precision
    }

    /// The compute capability of the first GPU.
    #[must_use]
    pub fn capability(&self) -> flow_cuda::Capability {
        self.gpus[0].encoder.gpu().capability()
    }

    /// Number of batches that can be in flight, over all GPUs.
    #[must_use]
    pub fn streams(&self) -> NonZeroUsize {
        let streams = self.gpus.iter().map(|gpu| gpu.encoder.streams().get());
        NonZeroUsize::new(streams.sum()).unwrap_or(NonZeroUsize::MIN)
    }

    /// Maximum tokens of a batch that fits into the memory of every GPU.
    #[must_use]
    pub fn max_batch_tokens(&self) -> NonZeroUsize {
        let tokens = self.gpus.iter().map(|gpu| gpu.encoder.max_batch_tokens());
        tokens.min().unwrap_or(NonZeroUsize::MIN)
    }

    /// Bytes that batches of this size take on one GPU, in addition to the weights.
    #[must_use]
    pub fn batch_bytes(&self, tokens: NonZeroUsize) -> usize {
        self.gpus[0].encoder.batch_bytes(tokens)
    }

    /// Bytes of the weights on one GPU.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.gpus[0].encoder.weight_bytes()
    }

    /// The vectors of a batch's texts, as a row-major matrix of `texts × head.width`. The thread sleeps until the GPU is done.
    ///
    /// # Errors
    ///
    /// If the GPU fails, or has too little memory for a single text.
    pub(super) fn encode(
        &self,
        batch: &TokenBatch,
        head: &PoolingHead,
    ) -> Result<Vec<f32>, GpuError> {
        let load = |gpu: &&GpuReplica| gpu.in_flight.load(Ordering::Relaxed);
        // Two callers may choose the same GPU at once. Then one of them waits for a stream.
        let Some(gpu) = self.gpus.iter().min_by_key(load) else {
            return Ok(Vec::new());
        };
        let _guard = InFlightGuard::new(&gpu.in_flight);
        let texts = TokenIds {
            ids: &batch.ids,
            lengths: &batch.lengths,
            second_starts: &batch.second_starts,
        };
        gpu.encoder.encode(texts, &cuda_pooling(head))
    }
}

impl<'a> InFlightGuard<'a> {
    fn new(in_flight: &'a AtomicUsize) -> Self {
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self(in_flight)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn load(
    tensors: &ModelTensors<'_>,
    gpu: &Arc<dyn Gpu>,
    precision: GpuPrecision,
) -> Result<CudaEncoder, ModelError> {
    let architecture = tensors.architecture;
    let mut positions = tensors.position_embeddings()?;
    let mut token_types = 1;
    if let Some(difference) = tensors.second_token_type()? {
        let second = positions.chunks_exact(difference.len());
        let second = second.flat_map(|row| row.iter().zip(&difference).map(|(a, b)| a + b));
        let second: Vec<f32> = second.collect();
        positions.extend(second);
        token_types = 2;
    }
    let embeddings = EmbeddingWeights {
        words: tensors.word_embeddings()?,
        positions,
        norm: layer_norm(tensors.embeddings_norm()?),
        position_bias: tensors.position_bias()?,
    };
    let mut loader = ModelLoader::new(
        gpu,
        shape(architecture, token_types),
        precision,
        &embeddings,
    )?;
    // The embeddings are half of a small model. The GPU has them now, so the host's copy can go.
    drop(embeddings);
    for index in 0..architecture.layers {
        loader.layer(&layer(tensors, index)?)?;
    }
    Ok(CudaEncoder::new(loader, STREAMS)?)
}

fn shape(architecture: &Architecture, token_types: usize) -> ModelShape {
    ModelShape {
        hidden_size: architecture.hidden_size,
        intermediate_size: architecture.intermediate_size,
        heads: architecture.heads,
        max_tokens: architecture.max_tokens(),
        token_types,
        vocab_size: architecture.vocab_size,
        epsilon: architecture.epsilon,
        activation: match architecture.activation {
            flow_kernels::Activation::None => Activation::None,
            flow_kernels::Activation::Gelu => Activation::Gelu,
            flow_kernels::Activation::GeluTanh => Activation::GeluTanh,
            flow_kernels::Activation::Relu => Activation::Relu,
        },
    }
}

fn layer(tensors: &ModelTensors<'_>, index: usize) -> Result<LayerWeights, WeightsError> {
    let [query, key, value] = tensors.qkv(index)?;
    let linear = |part| Ok(linear(tensors.linear(index, part)?));
    let norm = |part| Ok(layer_norm(tensors.layer_norm(index, part)?));
    Ok(LayerWeights {
        qkv: LinearWeights {
            weights: [query.weights, key.weights, value.weights].concat(),
            bias: [query.bias, key.bias, value.bias].concat(),
        },
        attention_output: linear(LayerPart::AttentionOutput)?,
        attention_norm: norm(LayerPart::AttentionNorm)?,
        mlp_up: linear(LayerPart::MlpUp)?,
        mlp_down: linear(LayerPart::MlpDown)?,
        mlp_norm: norm(LayerPart::MlpNorm)?,
    })
}

fn linear(tensors: LinearTensors) -> LinearWeights {
    LinearWeights {
        weights: tensors.weights,
        bias: tensors.bias,
    }
}

fn layer_norm(tensors: LayerNormTensors) -> LayerNormWeights {
    LayerNormWeights {
        scale: tensors.scale,
        shift: tensors.shift,
    }
}

fn cuda_pooling(head: &PoolingHead) -> flow_cuda::PoolingSpec {
    let mode = |mode: &PoolingMode| match mode {
        PoolingMode::Cls => flow_cuda::PoolingMode::Cls,
        PoolingMode::Mean => flow_cuda::PoolingMode::Mean,
        PoolingMode::Max => flow_cuda::PoolingMode::Max,
        PoolingMode::Min => flow_cuda::PoolingMode::Min,
        PoolingMode::MeanSqrtLen => flow_cuda::PoolingMode::MeanSqrtLen,
        PoolingMode::WeightedMean => flow_cuda::PoolingMode::WeightedMean,
        PoolingMode::LastToken => flow_cuda::PoolingMode::LastToken,
    };
    flow_cuda::PoolingSpec {
        modes: head.modes.iter().map(mode).collect(),
        skipped_tokens: head.skipped_tokens,
        width: head.width,
        normalize: head.normalize,
    }
}
