//! BERT and its relatives on `flow-kernels`: no padding, and weights that are packed once.
//!
//! `load.rs` turns a file of weights into a [`CpuModel`]. `batch_pass.rs` takes a batch through all layers on one thread;
//! with many texts, each core runs a batch of its own and shares nothing but the weights. `single_text.rs` takes one text
//! through all layers on several threads at once.

mod batch_pass;
mod embeddings;
mod f16;
mod int8;
mod layer_norm;
mod load;
mod model;
mod single_text;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flow_kernels::{CpuPrecision, Kernels};

use self::batch_pass::BatchPass;
use self::model::CpuModel;
use self::single_text::SingleTextPass;
use super::error::ModelError;
use super::info::EngineInfo;
use super::size::ModelSize;
use crate::family::ModelTensors;
use crate::tokens::{HiddenStates, TokenBatch};
use crate::worker_pool::WorkerPool;

/// A model on flow's CPU kernels.
#[derive(Debug)]
pub struct CpuEngine {
    model: CpuModel,
    /// Buffers of passes that are not running: as many as have ever run at once.
    idle_passes: Mutex<Vec<BatchPass>>,
    single_text: SingleTextPass,
}

impl CpuEngine {
    /// Loads a model's tensors for some kernels. For kernels that multiply 8-bit integers, the model is in the first folder,
    /// and the second one is a cache.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or a model cannot be calibrated.
    pub(super) fn load(
        tensors: &ModelTensors<'_>,
        folders: (&Path, Option<&Path>),
        kernels: Kernels,
    ) -> Result<Self, ModelError> {
        let model = match kernels.precision() {
            CpuPrecision::F32 | CpuPrecision::Bf16 => load::load_floats(tensors, kernels)?,
            CpuPrecision::Int8 => {
                let layers = int8::layers(tensors, folders, kernels)?;
                load::load_int8(tensors, kernels, &layers)?
            }
        };
        Ok(Self {
            model,
            idle_passes: Mutex::default(),
            single_text: SingleTextPass::default(),
        })
    }

    pub(super) fn size(&self) -> ModelSize {
        self.model.size
    }

    /// Maximum tokens of a text.
    pub(crate) fn max_tokens(&self) -> usize {
        self.model.max_tokens
    }

    pub(crate) fn info(&self) -> EngineInfo {
        let kernels = self.model.kernels;
        EngineInfo {
            engine: "flow",
            back_end: kernels.instruction_set().to_string(),
            precision: kernels.precision().to_string(),
        }
    }

    /// Size of all weights in bytes.
    pub(crate) fn weight_bytes(&self) -> usize {
        self.model.weight_bytes()
    }

    /// The hidden states of all tokens after the last layer, computed on this thread.
    pub(crate) fn forward(&self, batch: &TokenBatch) -> HiddenStates {
        let idle = self.idle_passes().pop();
        let mut pass = idle.unwrap_or_else(|| BatchPass::new(&self.model));
        let states = pass.forward(&self.model, batch);
        self.idle_passes().push(pass);
        states
    }

    /// The token ids and hidden states of a single text, computed on all workers. One worker calls `tokenize` while the
    /// others wake up.
    pub(super) fn forward_one<E: Send + Sync>(
        &self,
        tokenize: &(dyn Fn() -> Result<Vec<u32>, E> + Sync),
        pool: &WorkerPool,
    ) -> Result<(Vec<u32>, HiddenStates), E> {
        self.single_text.forward(&self.model, tokenize, pool)
    }

    fn idle_passes(&self) -> MutexGuard<'_, Vec<BatchPass>> {
        // A panic cannot interrupt a push or pop, so the list is intact.
        self.idle_passes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
