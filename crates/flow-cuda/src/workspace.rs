//! One batch through all layers on one stream.
//!
//! Of a batch, one copy goes to the device and one comes back; in between nothing leaves it. A workspace has its own
//! memory, which grows with the largest batch, so that several work at once and share nothing but the weights.

use std::sync::Arc;

use crate::batch::Batch;
use crate::gpu::{Address, Gpu, GpuError};
use crate::memory::{Buffer, Pinned, Staging, Stream, with_reserve};
use crate::model::{Layer, Linear, Model, Norm};
use crate::launcher::{self as operations, Activation, Attention, Embed, NOWHERE, Operations, Pool, Product};
use crate::pooling::Pooling;
use crate::upload::stride;

/// A stream and what it needs.
#[derive(Debug)]
pub(crate) struct Workspace {
    // First, so that it is finished before the memory goes that its kernels use.
    stream: Stream,
    input: Room,
    scratch: Room,
    output: Room,
}

/// Memory that grows: on the device, and, where something is copied, a twin on the machine.
#[derive(Debug, Default)]
struct Room {
    buffer: Option<Buffer>,
    twin: Staging,
}

/// Where in a workspace's memory things lie, for a batch of so many tokens.
#[derive(Debug, Clone, Copy)]
struct Places {
    states: Address,
    sums: Address,
    heads: Address,
    context: Address,
    inner: Address,
}

/// A batch on its way.
struct Pass<'a> {
    model: &'a Model,
    operations: Operations<'a>,
    places: Places,
    input: &'a Buffer,
    batch: &'a Batch,
}

impl Workspace {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            stream: Stream::open(gpu)?,
            input: Room::default(),
            scratch: Room::default(),
            output: Room::default(),
        })
    }

    /// The vectors of all texts, one after the other.
    pub(crate) fn encode(
        &mut self,
        model: &Model,
        batch: &Batch,
        pooling: &Pooling,
    ) -> Result<Vec<f32>, GpuError> {
        let out_bytes = batch.texts * pooling.width * size_of::<f32>();
        let gpu = Arc::clone(self.stream.gpu());
        let (input, staging) = self.input.with_twin(&gpu, batch.bytes())?;
        let scratch = self
            .scratch
            .buffer(&gpu, batch.tokens * bytes_per_token(model))?;
        let (vectors, out) = self.output.with_twin(&gpu, out_bytes)?;
        fill(staging, &batch.words);
        let pass = Pass {
            model,
            operations: Operations {
                stream: &self.stream,
                format: model.format,
            },
            places: Places::of(model, scratch, batch.tokens),
            input,
            batch,
        };
        // SAFETY: all memory is this workspace's or the model's, is as long as the batch needs (see `Places`), and is
        // left alone until the stream is finished, which happens in any case.
        let queued = unsafe {
            self.stream
                .copy_in(input, 0, staging, batch.bytes())
                .and_then(|()| pass.run())
                .and_then(|()| pass.pool(pooling, vectors))
                .and_then(|()| self.stream.copy_out(out, vectors, out_bytes))
        };
        let finished = self.stream.finish();
        queued.and(finished)?;
        let words = out.bytes()[..out_bytes].as_chunks().0.iter();
        Ok(words.map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

/// Bytes of scratch memory that a token takes.
pub(crate) fn bytes_per_token(model: &Model) -> usize {
    let (hidden, heads, inner) = strides(model);
    (2 * hidden + (heads + hidden).max(inner)) * model.format.bytes()
}

/// Of states, of all heads' queries, keys and values, and of inner states.
fn strides(model: &Model) -> (usize, usize, usize) {
    let shape = &model.shape;
    (
        stride(shape.hidden),
        stride(3 * shape.hidden),
        stride(shape.inner),
    )
}

impl Places {
    /// Inner states lie where heads and context have been.
    fn of(model: &Model, scratch: &Buffer, tokens: usize) -> Self {
        let (hidden, heads, _) = strides(model);
        let at = |values: usize| scratch.at(values * tokens * model.format.bytes());
        Self {
            states: at(0),
            sums: at(hidden),
            heads: at(2 * hidden),
            context: at(2 * hidden + heads),
            inner: at(2 * hidden),
        }
    }
}

impl Pass<'_> {
    /// # Safety
    ///
    /// The memory is as long as the batch needs, and is not dropped before the stream is finished.
    unsafe fn run(&self) -> Result<(), GpuError> {
        // SAFETY: what the caller promises.
        unsafe {
            self.embed()?;
            for layer in &self.model.layers {
                self.attend(layer)?;
                self.feed(layer)?;
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn embed(&self) -> Result<(), GpuError> {
        let (model, shape) = (self.model, &self.model.shape);
        let embed = Embed {
            ids: self.input.address(),
            places: self.input.at(Batch::offset(self.batch.places_at)),
            words: model.words.address(),
            positions: model.positions.address(),
            states: self.places.states,
            scale: model.norm.scale.address(),
            shift: model.norm.shift.address(),
            rows: self.batch.tokens,
            width: shape.hidden,
            vocabulary: shape.vocabulary,
            stride: stride(shape.hidden),
            epsilon: shape.epsilon,
        };
        // SAFETY: what the caller promises.
        unsafe { self.operations.embed(&embed) }
    }

    /// The first half of a layer.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn attend(&self, layer: &Layer) -> Result<(), GpuError> {
        let (shape, places) = (&self.model.shape, &self.places);
        let distances = self.model.distances.as_ref();
        let attention = Attention {
            states: places.heads,
            context: places.context,
            tiles: self.input.at(Batch::offset(self.batch.tiles_at)),
            distances: distances.map_or(NOWHERE, Buffer::address),
            tile_count: self.batch.tiles,
            heads: shape.heads,
            width: shape.hidden / shape.heads,
            span: shape.positions,
            states_stride: stride(3 * shape.hidden),
            context_stride: stride(shape.hidden),
        };
        // SAFETY: what the caller promises.
        unsafe {
            self.product(&layer.heads, (places.states, NOWHERE, places.heads))?;
            self.operations.attention(&attention)?;
            self.product(&layer.out, (places.context, places.states, places.sums))?;
            self.norm(&layer.out_norm)
        }
    }

    /// The second half.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn feed(&self, layer: &Layer) -> Result<(), GpuError> {
        let places = &self.places;
        let up = Product {
            activation: self.model.shape.activation,
            ..self.linear(&layer.up, (places.states, NOWHERE, places.inner))
        };
        // SAFETY: what the caller promises.
        unsafe {
            self.operations.product(&up)?;
            self.product(&layer.down, (places.inner, places.states, places.sums))?;
            self.norm(&layer.down_norm)
        }
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn product(
        &self,
        linear: &Linear,
        places: (Address, Address, Address),
    ) -> Result<(), GpuError> {
        // SAFETY: what the caller promises.
        unsafe { self.operations.product(&self.linear(linear, places)) }
    }

    /// From `from`, with `residual` added, to `to`.
    fn linear(
        &self,
        linear: &Linear,
        (from, residual, to): (Address, Address, Address),
    ) -> Product {
        Product {
            a: from,
            b: linear.weights.address(),
            bias: linear.bias.address(),
            residual,
            c: to,
            rows: self.batch.tokens,
            columns: linear.to,
            depth: linear.from,
            a_stride: stride(linear.from),
            b_stride: stride(linear.from),
            c_stride: stride(linear.to),
            activation: Activation::None,
        }
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn norm(&self, norm: &Norm) -> Result<(), GpuError> {
        let shape = &self.model.shape;
        let norm = operations::Norm {
            sums: self.places.sums,
            states: self.places.states,
            scale: norm.scale.address(),
            shift: norm.shift.address(),
            rows: self.batch.tokens,
            width: shape.hidden,
            stride: stride(shape.hidden),
            epsilon: shape.epsilon,
        };
        // SAFETY: what the caller promises.
        unsafe { self.operations.norm(&norm) }
    }

    /// # Safety
    ///
    /// As for [`Self::run`]; there is room for the vectors.
    unsafe fn pool(&self, pooling: &Pooling, vectors: &Buffer) -> Result<(), GpuError> {
        let hidden = self.model.shape.hidden;
        let pool = Pool {
            states: self.places.states,
            texts: self.input.at(Batch::offset(self.batch.texts_at)),
            vectors: vectors.address(),
            text_count: self.batch.texts,
            modes: pooling.code(hidden),
            width: hidden,
            stride: stride(hidden),
            vector_width: pooling.width,
            skipped: pooling.skipped,
            normalize: pooling.normalize,
        };
        // SAFETY: what the caller promises.
        unsafe { self.operations.pool(&pool) }
    }
}

impl Room {
    fn buffer(&mut self, gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<&Buffer, GpuError> {
        if self.buffer.as_ref().is_none_or(|it| it.bytes() < bytes) {
            // The old one goes first, so that there is never room for both.
            self.buffer = None;
            self.buffer = Some(Buffer::new(gpu, with_reserve(bytes))?);
        }
        Ok(self.buffer.as_ref().expect("made above"))
    }

    fn with_twin(
        &mut self,
        gpu: &Arc<dyn Gpu>,
        bytes: usize,
    ) -> Result<(&Buffer, &mut Pinned), GpuError> {
        self.buffer(gpu, bytes)?;
        let buffer = self.buffer.as_ref().expect("made above");
        Ok((buffer, self.twin.of(gpu, bytes)?))
    }
}

fn fill(staging: &mut Pinned, words: &[u32]) {
    let places = staging.bytes_mut().as_chunks_mut::<4>().0.iter_mut();
    for (place, word) in places.zip(words) {
        *place = word.to_le_bytes();
    }
}
