//! BERT as candle-transformers has it, in 32-bit floats on the CPU.
//!
//! Texts of one length go through without a mask and without padding; the caller sorts by length, so
//! that this is the common case. Otherwise short texts are padded, and the mask keeps the padding out
//! of the attention.
//!
//! candle spreads an operation over threads in two ways. Matrix products, soft-max and layer norms use the rayon pool
//! that they are called in, which is one of this model's own: the process's global pool stays untouched. Element-wise
//! operations on large tensors use one barrier pool for the whole process, which candle sizes by the variables
//! `CANDLE_NUM_THREADS` and `RAYON_NUM_THREADS` at its first use, and which no code can configure. Callers would wait
//! for each other there, so batches are computed one at a time.

use std::num::NonZeroUsize;

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use candle_transformers::models::bert::{BertModel, Config};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{ForwardError, Size, States, TokenBatch};
use crate::weights::Weights;

/// A loaded BERT.
pub struct Bert {
    model: BertModel,
    size: Size,
    positions: usize,
    threads: ThreadPool,
}

impl Bert {
    /// Loads weights whose names and shapes have been checked.
    ///
    /// # Errors
    ///
    /// If candle refuses them, or the threads cannot be started.
    pub fn load(
        config: &Config,
        weights: Weights,
        threads: NonZeroUsize,
    ) -> Result<Self, BertError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .thread_name(|number| format!("candle-{number}"))
            .build()?;
        let prefix = prefix(&weights);
        let reader = VarBuilder::from_backend(Box::new(Reader(weights)), DType::F32, Device::Cpu);
        let reader = if prefix.is_empty() {
            reader
        } else {
            reader.pp(prefix.trim_end_matches('.'))
        };
        // candle looks for the prefix of the family itself, under names that our reader does not list.
        let model = BertModel::load(reader, config)?;
        Ok(Self {
            model,
            size: Size {
                hidden: config.hidden_size,
                inner: config.intermediate_size,
                layers: config.num_hidden_layers,
            },
            positions: config.max_position_embeddings,
            threads,
        })
    }

    /// How many values a token's state has.
    pub fn width(&self) -> usize {
        self.size.hidden
    }

    /// How large it is.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// How many tokens a text can have at most.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// How many threads compute.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// The states of all tokens after the last layer.
    ///
    /// # Errors
    ///
    /// If candle cannot compute them.
    pub fn forward(&self, batch: &TokenBatch) -> Result<States, ForwardError> {
        self.threads.install(|| self.forward_here(batch))
    }

    fn forward_here(&self, batch: &TokenBatch) -> Result<States, ForwardError> {
        let (texts, stride) = (batch.lengths.len(), batch.longest());
        let ids = Tensor::from_vec(batch.padded_ids(), (texts, stride), &Device::Cpu)?;
        // One text at a time has one segment, whose number is 0.
        let segments = ids.zeros_like()?;
        let mask = if batch.is_even() {
            None
        } else {
            Some(mask(batch, stride)?)
        };
        let states = self.model.forward(&ids, &segments, mask.as_ref())?;
        let values = states.flatten_all()?.to_vec1()?;
        Ok(States {
            values,
            starts: (0..texts).map(|text| text * stride).collect(),
            width: self.size.hidden,
        })
    }
}

/// candle could not make a model of the weights.
#[derive(Debug, thiserror::Error)]
pub enum BertError {
    /// candle refuses the weights.
    #[error("candle cannot build the model")]
    Build(#[from] candle_core::Error),
    /// Its threads cannot be started.
    #[error("cannot start candle's threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

fn mask(batch: &TokenBatch, stride: usize) -> candle_core::Result<Tensor> {
    let row = |length: usize| (0..stride).map(move |at| u32::from(at < length));
    let mask: Vec<u32> = batch
        .lengths
        .iter()
        .flat_map(|&length| row(length))
        .collect();
    Tensor::from_vec(mask, (batch.lengths.len(), stride), &Device::Cpu)
}

/// What stands before the names: nothing in an encoder's checkpoint, `bert.` in those with a head.
fn prefix(weights: &Weights) -> &'static str {
    if weights.contains("bert.embeddings.word_embeddings.weight") {
        "bert."
    } else {
        ""
    }
}

/// Lets candle ask for tensors by name, and gives each out as it is read.
struct Reader(Weights);

impl SimpleBackend for Reader {
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

impl std::fmt::Debug for Bert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bert")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
