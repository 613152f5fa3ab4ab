//! BERT with candle-transformers, in 32-bit floats on the CPU: the reference for flow's own kernels.
//!
//! Texts of equal length run without padding and without a mask, which is the common case, because the caller sorts texts by
//! length. Otherwise short texts are padded, and a mask excludes the padding from attention.
//!
//! # Threads
//!
//! candle parallelizes in two ways. Matrix products, softmax and layer norms use the rayon pool that they are called in. That
//! is a pool of this engine's own, so that the process's global pool stays unused. Element-wise operations on large tensors use
//! a barrier pool of the whole process, which candle sizes at its first use by the variables `CANDLE_NUM_THREADS` and
//! `RAYON_NUM_THREADS`; no function configures it. Concurrent batches would wait for each other there, so the caller runs one
//! batch at a time.

use std::num::NonZeroUsize;

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use candle_transformers::models::bert::{BertModel, Config};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::size::ModelSize;
use crate::tokens::{HiddenStates, TokenBatch};
use crate::weights::WeightsFile;

/// candle could not load a model.
#[derive(Debug, thiserror::Error)]
pub enum CandleError {
    /// candle refused the weights.
    #[error("candle cannot build the model")]
    Build(#[from] candle_core::Error),
    /// The threads could not be started.
    #[error("cannot start candle's threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// candle failed to compute.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CandleForwardError(#[from] candle_core::Error);

/// A BERT model that candle computes.
pub struct CandleEngine {
    model: BertModel,
    size: ModelSize,
    max_tokens: usize,
    threads: ThreadPool,
}

impl CandleEngine {
    /// Loads weights whose names and shapes have been checked.
    ///
    /// # Errors
    ///
    /// If candle refuses them, or the threads cannot be started.
    pub(super) fn load(
        config: &Config,
        weights: WeightsFile,
        threads: NonZeroUsize,
    ) -> Result<Self, CandleError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .thread_name(|thread| format!("candle-{thread}"))
            .build()?;
        let prefix = prefix(&weights);
        let backend = Box::new(WeightsBackend(weights));
        let builder = VarBuilder::from_backend(backend, DType::F32, Device::Cpu);
        let builder = if prefix.is_empty() {
            builder
        } else {
            builder.pp(prefix.trim_end_matches('.'))
        };
        // `BertModel` also looks for the prefix itself, but under names that `WeightsBackend` does not list.
        let model = BertModel::load(builder, config)?;
        Ok(Self {
            model,
            size: ModelSize {
                hidden: config.hidden_size,
                intermediate: config.intermediate_size,
                layers: config.num_hidden_layers,
            },
            max_tokens: config.max_position_embeddings,
            threads,
        })
    }

    pub(super) fn size(&self) -> ModelSize {
        self.size
    }

    /// Maximum tokens of a text.
    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Number of threads that compute.
    pub(super) fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// The hidden states of all tokens after the last layer.
    ///
    /// # Errors
    ///
    /// If candle fails.
    pub(super) fn forward(&self, batch: &TokenBatch) -> Result<HiddenStates, CandleForwardError> {
        Ok(self.threads.install(|| self.forward_on_thread(batch))?)
    }

    fn forward_on_thread(&self, batch: &TokenBatch) -> candle_core::Result<HiddenStates> {
        let (texts, stride) = (batch.lengths.len(), batch.max_length());
        let ids = Tensor::from_vec(batch.padded_ids(), (texts, stride), &Device::Cpu)?;
        // All tokens of a single text have type 0.
        let token_types = ids.zeros_like()?;
        let mask = if batch.has_equal_lengths() {
            None
        } else {
            Some(mask(batch, stride)?)
        };
        let states = self.model.forward(&ids, &token_types, mask.as_ref())?;
        let values = states.flatten_all()?.to_vec1()?;
        Ok(HiddenStates {
            values,
            starts: (0..texts).map(|text| text * stride).collect(),
            width: self.size.hidden,
        })
    }
}

/// A matrix of `texts × stride` with 1 for each token and 0 for padding.
fn mask(batch: &TokenBatch, stride: usize) -> candle_core::Result<Tensor> {
    let row = |length: usize| (0..stride).map(move |column| u32::from(column < length));
    let mask: Vec<u32> = batch
        .lengths
        .iter()
        .flat_map(|&length| row(length))
        .collect();
    Tensor::from_vec(mask, (batch.lengths.len(), stride), &Device::Cpu)
}

/// Prefix of tensor names: `bert.` in checkpoints of models with a head, nothing in those of plain encoders.
fn prefix(weights: &WeightsFile) -> &'static str {
    if weights.contains("bert.embeddings.word_embeddings.weight") {
        "bert."
    } else {
        ""
    }
}

/// Gives candle each tensor as it is read from the file.
struct WeightsBackend(WeightsFile);

impl SimpleBackend for WeightsBackend {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.0
            .check(name, shape.dims())
            .map_err(candle_core::Error::wrap)?;
        let values = self.0.read(name).map_err(candle_core::Error::wrap)?;
        Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        Err(candle_core::Error::CannotFindTensor {
            path: name.to_owned(),
        })
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl std::fmt::Debug for CandleEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CandleEngine")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
