//! BERT and its relatives on GPUs: each has all weights, and a batch goes to the one with the least to do.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow_cuda::{
    Activation, EmbeddingWeights, Engine, Format, Gpu, GpuError, LayerWeights, LinearWeights,
    Loader, NormWeights, STREAMS, Shape,
};

use super::{ModelError, Size, TokenBatch};
use crate::family::{Layout, Linear, Norm, Part, Tensors};
use crate::pooling::{PoolingMode, Rule};
use crate::weights::WeightsError;

/// A model on one GPU or more.
#[derive(Debug)]
pub struct Gpus {
    // Never empty.
    gpus: Vec<Busy>,
    size: Size,
    positions: usize,
    format: Format,
}

/// A GPU, and how many batches are on their way to it.
#[derive(Debug)]
struct Busy {
    engine: Engine,
    batches: AtomicUsize,
}

/// A batch on its way, whatever becomes of it.
struct Underway<'a>(&'a AtomicUsize);

impl Gpus {
    /// Loads a model's tensors onto each of `gpus`, of which there is at least one.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or a GPU fails, has no room, or cannot compute them.
    pub(super) fn load(
        tensors: &Tensors<'_>,
        gpus: &[Arc<dyn Gpu>],
        format: Format,
    ) -> Result<Self, ModelError> {
        let load = |gpu| {
            Ok(Busy {
                engine: load(tensors, gpu, format)?,
                batches: AtomicUsize::new(0),
            })
        };
        Ok(Self {
            gpus: gpus.iter().map(load).collect::<Result<_, ModelError>>()?,
            size: Size::of(tensors.layout),
            positions: tensors.layout.positions(),
            format,
        })
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// What they are called.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.gpus.iter().map(|it| it.engine.gpu().name()).collect()
    }

    /// The numbers that are computed with.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the first GPU can do; `cuda:all` takes them as they are.
    #[must_use]
    pub fn capability(&self) -> flow_cuda::Capability {
        self.gpus[0].engine.gpu().capability()
    }

    /// How many batches are on their way at once, on all of them.
    #[must_use]
    pub fn streams(&self) -> NonZeroUsize {
        let streams = self.gpus.iter().map(|gpu| gpu.engine.streams().get());
        NonZeroUsize::new(streams.sum()).unwrap_or(NonZeroUsize::MIN)
    }

    /// How many tokens a batch should have at most, so that it finds room on each.
    #[must_use]
    pub fn batch_tokens(&self) -> NonZeroUsize {
        let tokens = self.gpus.iter().map(|gpu| gpu.engine.batch_tokens());
        tokens.min().unwrap_or(NonZeroUsize::MIN)
    }

    /// Bytes that a GPU's batches of so many tokens take beside the weights.
    #[must_use]
    pub fn batch_bytes(&self, tokens: NonZeroUsize) -> usize {
        self.gpus[0].engine.batch_bytes(tokens)
    }

    /// Bytes of the weights on one GPU.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.gpus[0].engine.weight_bytes()
    }

    /// The vectors of a batch's texts, one after the other. Waits for the GPU; the thread sleeps meanwhile.
    ///
    /// # Errors
    ///
    /// If the GPU fails, or has no room for a single text.
    pub(super) fn encode(&self, batch: &TokenBatch, rule: &Rule) -> Result<Vec<f32>, GpuError> {
        let least = |gpu: &&Busy| gpu.batches.load(Ordering::Relaxed);
        // Two callers may choose the same one; then one of them waits a little.
        let Some(gpu) = self.gpus.iter().min_by_key(least) else {
            return Ok(Vec::new());
        };
        let _underway = Underway::count(&gpu.batches);
        gpu.engine
            .encode(&batch.ids, &batch.lengths, &pooling(rule))
    }
}

impl<'a> Underway<'a> {
    fn count(batches: &'a AtomicUsize) -> Self {
        batches.fetch_add(1, Ordering::Relaxed);
        Self(batches)
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn load(tensors: &Tensors<'_>, gpu: &Arc<dyn Gpu>, format: Format) -> Result<Engine, ModelError> {
    let layout = tensors.layout;
    let embeddings = EmbeddingWeights {
        words: tensors.words()?,
        positions: tensors.positions()?,
        norm: norm(tensors.embeddings_norm()?),
        distances: tensors.distances()?,
    };
    let mut loader = Loader::new(gpu, shape(layout), format, &embeddings)?;
    // They are half of a small model, and are on the GPU now.
    drop(embeddings);
    for number in 0..layout.layers {
        loader.layer(&layer(tensors, number)?)?;
    }
    Ok(Engine::new(loader, STREAMS)?)
}

fn shape(layout: &Layout) -> Shape {
    Shape {
        hidden: layout.hidden,
        inner: layout.inner,
        heads: layout.heads,
        positions: layout.positions(),
        vocabulary: layout.vocabulary,
        epsilon: layout.epsilon,
        activation: match layout.activation {
            flow_kernels::Activation::None => Activation::None,
            flow_kernels::Activation::Gelu => Activation::Gelu,
            flow_kernels::Activation::GeluTanh => Activation::GeluTanh,
            flow_kernels::Activation::Relu => Activation::Relu,
        },
    }
}

fn layer(tensors: &Tensors<'_>, number: usize) -> Result<LayerWeights, WeightsError> {
    let [query, key, value] = tensors.heads(number)?;
    let get = |part| Ok(linear(tensors.linear(number, part)?));
    Ok(LayerWeights {
        heads: LinearWeights {
            weights: [query.weights, key.weights, value.weights].concat(),
            bias: [query.bias, key.bias, value.bias].concat(),
        },
        out: get(Part::Out)?,
        out_norm: norm(tensors.layer_norm(number, Part::OutNorm)?),
        up: get(Part::Up)?,
        down: get(Part::Down)?,
        down_norm: norm(tensors.layer_norm(number, Part::DownNorm)?),
    })
}

fn linear(linear: Linear) -> LinearWeights {
    LinearWeights {
        weights: linear.weights,
        bias: linear.bias,
    }
}

fn norm(norm: Norm) -> NormWeights {
    NormWeights {
        scale: norm.scale,
        shift: norm.shift,
    }
}

fn pooling(rule: &Rule) -> flow_cuda::Pooling {
    let mode = |mode: &PoolingMode| match mode {
        PoolingMode::Cls => flow_cuda::PoolingMode::Cls,
        PoolingMode::Mean => flow_cuda::PoolingMode::Mean,
        PoolingMode::Max => flow_cuda::PoolingMode::Max,
        PoolingMode::Min => flow_cuda::PoolingMode::Min,
        PoolingMode::MeanSqrtLen => flow_cuda::PoolingMode::MeanSqrtLen,
        PoolingMode::WeightedMean => flow_cuda::PoolingMode::WeightedMean,
        PoolingMode::LastToken => flow_cuda::PoolingMode::LastToken,
    };
    flow_cuda::Pooling {
        modes: rule.modes.iter().map(mode).collect(),
        skipped: rule.skipped,
        width: rule.width,
        normalize: rule.normalize,
    }
}
