//! A model on a device: whoever has texts gets their vectors, from any number of threads.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::batch::{Batch, half};
use crate::gpu::{Gpu, GpuError};
use crate::kernel::Format;
use crate::model::{Loader, Model, Shape};
use crate::pooling::Pooling;
use crate::workspace::{Workspace, bytes_per_token};

/// Batches that are on their way at once: while one is computed, the next is copied and queued.
pub const STREAMS: NonZeroUsize = NonZeroUsize::new(2).expect("it is not zero");

/// Tokens of a batch, where memory sets no other limit: products of so many rows have several tiles for each
/// multiprocessor of the largest devices, and more would only take memory.
const BATCH_TOKENS_MAX: usize = 32 * 1024;

/// The most that is tried at all: a grid of blocks reaches over four times as many rows and no further.
const TOKENS_MAX: usize = 1024 * 1024;

/// Of the memory that is free when the weights are there, the part that batches may take: others use the device too.
const MEMORY_SHARE: usize = 2;

/// A model on a device.
#[derive(Debug)]
pub struct Engine {
    // Before the model, whose weights their streams may still be using when an engine is dropped.
    spare: Mutex<Vec<Workspace>>,
    returned: Condvar,
    model: Model,
    streams: NonZeroUsize,
    batch_tokens: NonZeroUsize,
}

/// A workspace that goes back when it is dropped.
struct Lent<'a> {
    engine: &'a Engine,
    workspace: Option<Workspace>,
}

impl Engine {
    /// Takes over a model whose layers are all there, for so many batches at once.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn new(loader: Loader, streams: NonZeroUsize) -> Result<Self, GpuError> {
        let model = loader.finish();
        let spare = (0..streams.get()).map(|_| Workspace::new(&model.gpu));
        let spare = spare.collect::<Result<_, _>>()?;
        let free = model.gpu.memory()?.free;
        Ok(Self {
            spare: Mutex::new(spare),
            returned: Condvar::new(),
            batch_tokens: batch_tokens(&model, free / MEMORY_SHARE / streams),
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
    pub fn shape(&self) -> Shape {
        self.model.shape
    }

    /// How many layers it has.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.model.layers.len()
    }

    /// The numbers that are computed with.
    #[must_use]
    pub fn format(&self) -> Format {
        self.model.format
    }

    /// Bytes of all weights, as they are kept.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.model.weight_bytes()
    }

    /// How many batches are on their way at most; other callers wait.
    #[must_use]
    pub fn streams(&self) -> NonZeroUsize {
        self.streams
    }

    /// How many tokens a batch should have at most, by the memory that was free when the model was loaded.
    #[must_use]
    pub fn batch_tokens(&self) -> NonZeroUsize {
        self.batch_tokens
    }

    /// Bytes that batches of so many tokens take beside the weights, all streams together.
    #[must_use]
    pub fn batch_bytes(&self, tokens: NonZeroUsize) -> usize {
        self.streams.get() * tokens.get() * bytes_per_token(&self.model)
    }

    /// The vectors of texts whose tokens follow each other in `ids`, one vector after the other. Waits for the device,
    /// and before that for a stream. A batch for which there is no room is cut in two, as often as need be.
    ///
    /// # Errors
    ///
    /// If there is no room for a single text, or the device fails.
    ///
    /// # Panics
    ///
    /// If ids and lengths do not go together, a text is longer than the model's positions, or `pooling` asks for more
    /// than states have.
    pub fn encode(
        &self,
        ids: &[u32],
        lengths: &[usize],
        pooling: &Pooling,
    ) -> Result<Vec<f32>, GpuError> {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        assert!(longest <= self.model.shape.positions, "positions");
        if ids.is_empty() {
            return Ok(vec![0.0; lengths.len() * pooling.width]);
        }
        let half = half(lengths);
        if let Some(texts) = half.filter(|_| ids.len() > TOKENS_MAX) {
            return self.encode_halves(ids, lengths, texts, pooling);
        }
        let batch = Batch::of(ids, lengths);
        let encoded = self.lend().encode(&self.model, &batch, pooling);
        match (encoded, half) {
            (Err(GpuError::OutOfMemory { bytes }), Some(texts)) => {
                tracing::warn!(tokens = ids.len(), bytes, "no room for a batch; cut in two");
                self.encode_halves(ids, lengths, texts, pooling)
            }
            (encoded, _) => encoded,
        }
    }

    /// The first so many texts, then the others.
    fn encode_halves(
        &self,
        ids: &[u32],
        lengths: &[usize],
        texts: usize,
        pooling: &Pooling,
    ) -> Result<Vec<f32>, GpuError> {
        let (first, second) = lengths.split_at(texts);
        let (first_ids, second_ids) = ids.split_at(first.iter().sum());
        let mut vectors = self.encode(first_ids, first, pooling)?;
        vectors.extend(self.encode(second_ids, second, pooling)?);
        Ok(vectors)
    }

    fn lend(&self) -> Lent<'_> {
        let mut spare = self.spare();
        loop {
            if let Some(workspace) = spare.pop() {
                return Lent {
                    engine: self,
                    workspace: Some(workspace),
                };
            }
            spare = self
                .returned
                .wait(spare)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Workspace>> {
        // What is in it is whole, whoever panicked.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Lent<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        self.workspace.as_ref().expect("it is there until the end")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("it is there until the end")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.engine.spare().extend(self.workspace.take());
        self.engine.returned.notify_one();
    }
}

fn batch_tokens(model: &Model, bytes: usize) -> NonZeroUsize {
    let tokens = (bytes / bytes_per_token(model)).min(BATCH_TOKENS_MAX);
    // Less than the longest text would be no limit at all.
    NonZeroUsize::new(tokens.max(model.shape.positions)).unwrap_or(NonZeroUsize::MIN)
}
