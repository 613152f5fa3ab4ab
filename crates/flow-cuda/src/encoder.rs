//! A model on a device, which any number of threads may use.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::batch::{PackedBatch, TokenIds, split_point};
use crate::gpu::{Gpu, GpuError};
use crate::kernel::GpuPrecision;
use crate::model::{DeviceModel, ModelLoader, ModelShape};
use crate::pooling::PoolingSpec;
use crate::workspace::{Workspace, bytes_per_token};

/// Default number of batches in flight: while one is computed, the next is copied and queued.
pub const STREAMS: NonZeroUsize = NonZeroUsize::new(2).expect("not zero");

/// Maximum tokens of a batch if memory sets no lower limit. Products of this many rows have several tiles for each
/// multiprocessor of the largest devices, and more would only take memory.
const MAX_BATCH_TOKENS: usize = 32 * 1024;

/// Maximum tokens of a batch in any case. A grid of blocks covers at most four times as many rows.
const MAX_GRID_TOKENS: usize = 1024 * 1024;

/// The part of the free memory that batches may take, as a divisor. Other processes use the device as well.
const MEMORY_DIVISOR: usize = 2;

/// A model on a device, with workspaces for several batches.
#[derive(Debug)]
pub struct CudaEncoder {
    // Before the model, whose weights their streams may still be using when the encoder is dropped.
    idle: Mutex<Vec<Workspace>>,
    returned: Condvar,
    model: DeviceModel,
    streams: NonZeroUsize,
    max_batch_tokens: NonZeroUsize,
}

/// A workspace in use. Dropping it returns the workspace to its encoder.
struct WorkspaceGuard<'a> {
    encoder: &'a CudaEncoder,
    workspace: Option<Workspace>,
}

impl CudaEncoder {
    /// Creates an encoder for a completely loaded model, with `streams` batches in flight.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn new(loader: ModelLoader, streams: NonZeroUsize) -> Result<Self, GpuError> {
        let model = loader.finish();
        let idle = (0..streams.get()).map(|_| Workspace::new(&model.gpu));
        let idle = idle.collect::<Result<_, _>>()?;
        let free = model.gpu.memory()?.free;
        Ok(Self {
            idle: Mutex::new(idle),
            returned: Condvar::new(),
            max_batch_tokens: max_batch_tokens(&model, free / MEMORY_DIVISOR / streams),
            model,
            streams,
        })
    }

    /// The device.
    #[must_use]
    pub fn gpu(&self) -> &Arc<dyn Gpu> {
        &self.model.gpu
    }

    /// The model's dimensions.
    #[must_use]
    pub fn shape(&self) -> ModelShape {
        self.model.shape
    }

    /// Number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.model.layers.len()
    }

    /// The precision of the model.
    #[must_use]
    pub fn precision(&self) -> GpuPrecision {
        self.model.precision
    }

    /// Size of all weights in bytes.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.model.weight_bytes()
    }

    /// Maximum number of batches in flight. Further callers wait.
    #[must_use]
    pub fn streams(&self) -> NonZeroUsize {
        self.streams
    }

    /// Recommended maximum tokens of a batch, by the memory that was free when the model was loaded.
    #[must_use]
    pub fn max_batch_tokens(&self) -> NonZeroUsize {
        self.max_batch_tokens
    }

    /// Bytes that batches of this size take on all streams together, in addition to the weights.
    #[must_use]
    pub fn batch_bytes(&self, tokens: NonZeroUsize) -> usize {
        self.streams.get() * tokens.get() * bytes_per_token(&self.model)
    }

    /// Encodes texts. Returns a row-major matrix of `texts × pooling.width`.
    ///
    /// The thread sleeps until a stream is free and the device is done. A batch that does not fit into memory is split in
    /// two, repeatedly if necessary.
    ///
    /// # Errors
    ///
    /// If there is too little memory for a single text, or the device fails.
    ///
    /// # Panics
    ///
    /// If the number of ids is not the sum of the lengths, a text is longer than the model allows, or `pooling` does not
    /// suit the model.
    pub fn encode(&self, texts: TokenIds<'_>, pooling: &PoolingSpec) -> Result<Vec<f32>, GpuError> {
        let TokenIds { ids, lengths, .. } = texts;
        let max_length = lengths.iter().copied().max().unwrap_or(0);
        assert!(
            max_length <= self.model.shape.max_tokens,
            "length of a text"
        );
        if ids.is_empty() {
            return Ok(vec![0.0; lengths.len() * pooling.width]);
        }
        let split = split_point(lengths);
        if let Some(first) = split.filter(|_| ids.len() > MAX_GRID_TOKENS) {
            return self.encode_halves(texts.split_at(first), pooling);
        }
        let batch = PackedBatch::new(texts, self.model.shape.second_position_row());
        let encoded = self.workspace().encode(&self.model, &batch, pooling);
        match (encoded, split) {
            (Err(GpuError::OutOfMemory { bytes }), Some(first)) => {
                tracing::warn!(
                    tokens = ids.len(),
                    bytes,
                    "batch does not fit into GPU memory and is split in two"
                );
                self.encode_halves(texts.split_at(first), pooling)
            }
            (encoded, _) => encoded,
        }
    }

    fn encode_halves(
        &self,
        (first, others): (TokenIds<'_>, TokenIds<'_>),
        pooling: &PoolingSpec,
    ) -> Result<Vec<f32>, GpuError> {
        let mut vectors = self.encode(first, pooling)?;
        vectors.extend(self.encode(others, pooling)?);
        Ok(vectors)
    }

    /// Takes an idle workspace, and waits for one if there is none.
    fn workspace(&self) -> WorkspaceGuard<'_> {
        let mut idle = self.idle();
        loop {
            if let Some(workspace) = idle.pop() {
                return WorkspaceGuard {
                    encoder: self,
                    workspace: Some(workspace),
                };
            }
            idle = self
                .returned
                .wait(idle)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Workspace>> {
        // A panic cannot interrupt a push or pop, so the list is intact.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for WorkspaceGuard<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        self.workspace.as_ref().expect("present until dropped")
    }
}

impl DerefMut for WorkspaceGuard<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("present until dropped")
    }
}

impl Drop for WorkspaceGuard<'_> {
    fn drop(&mut self) {
        self.encoder.idle().extend(self.workspace.take());
        self.encoder.returned.notify_one();
    }
}

/// Maximum tokens of a batch that takes at most `bytes` bytes.
fn max_batch_tokens(model: &DeviceModel, bytes: usize) -> NonZeroUsize {
    let tokens = (bytes / bytes_per_token(model)).min(MAX_BATCH_TOKENS);
    // A batch has at least one text, however long.
    NonZeroUsize::new(tokens.max(model.shape.max_tokens)).unwrap_or(NonZeroUsize::MIN)
}
