//! Takes one batch through all layers on one stream.
//!
//! A batch takes one copy to the device and one copy back. A workspace has buffers of its own, which grow with the largest
//! batch, so that several workspaces run at once and share nothing but the weights.

use std::sync::Arc;

use crate::batch::PackedBatch;
use crate::gpu::{DeviceAddress, Gpu, GpuError};
use crate::launcher::{
    Activation, AttentionParams, EmbedParams, KernelLauncher, LayerNormParams, MatmulParams, NULL,
    PoolParams,
};
use crate::memory::{CudaStream, DeviceBuffer, PinnedBuffer, StagingBuffer, with_reserve};
use crate::model::{DeviceLayer, DeviceLayerNorm, DeviceLinear, DeviceModel};
use crate::pooling::PoolingSpec;
use crate::upload::stride;

/// A stream and its buffers.
#[derive(Debug)]
pub(crate) struct Workspace {
    // First, so that it is synchronized before the buffers are freed that its kernels use.
    stream: CudaStream,
    input: GrowableBuffer,
    scratch: GrowableBuffer,
    output: GrowableBuffer,
}

/// A device buffer that grows on demand, with a staging buffer on the host where its content is copied.
#[derive(Debug, Default)]
struct GrowableBuffer {
    buffer: Option<DeviceBuffer>,
    staging: StagingBuffer,
}

/// The addresses of a batch's intermediate results.
#[derive(Debug, Clone, Copy)]
struct ScratchLayout {
    states: DeviceAddress,
    sums: DeviceAddress,
    qkv: DeviceAddress,
    context: DeviceAddress,
    intermediate: DeviceAddress,
}

/// Operands of a linear layer.
#[derive(Clone, Copy)]
struct LinearOperands {
    input: DeviceAddress,
    /// Added to the output. May be [`NULL`].
    residual: DeviceAddress,
    output: DeviceAddress,
}

/// A forward pass of one batch.
struct ForwardPass<'a> {
    model: &'a DeviceModel,
    launcher: KernelLauncher<'a>,
    scratch: ScratchLayout,
    input: &'a DeviceBuffer,
    batch: &'a PackedBatch,
}

impl Workspace {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            stream: CudaStream::new(gpu)?,
            input: GrowableBuffer::default(),
            scratch: GrowableBuffer::default(),
            output: GrowableBuffer::default(),
        })
    }

    /// The vectors of all texts: a row-major matrix of `texts × pooling.width`.
    pub(crate) fn encode(
        &mut self,
        model: &DeviceModel,
        batch: &PackedBatch,
        pooling: &PoolingSpec,
    ) -> Result<Vec<f32>, GpuError> {
        let output_bytes = batch.texts * pooling.width * size_of::<f32>();
        let gpu = Arc::clone(self.stream.gpu());
        let (input, staging) = self.input.with_staging(&gpu, batch.bytes())?;
        let scratch = self
            .scratch
            .with_bytes(&gpu, batch.tokens * bytes_per_token(model))?;
        let (vectors, out) = self.output.with_staging(&gpu, output_bytes)?;
        write_words(staging, &batch.words);
        let pass = ForwardPass {
            model,
            launcher: KernelLauncher {
                stream: &self.stream,
                precision: model.precision,
            },
            scratch: ScratchLayout::new(model, scratch, batch.tokens),
            input,
            batch,
        };
        // SAFETY: all memory belongs to this workspace or to the model, is as long as the batch needs (see
        // `ScratchLayout`), and is not used before the stream is synchronized, which happens in any case.
        let queued = unsafe {
            self.stream
                .copy_to_device(input, 0, staging, batch.bytes())
                .and_then(|()| pass.run())
                .and_then(|()| pass.pool(pooling, vectors))
                .and_then(|()| self.stream.copy_from_device(out, vectors, output_bytes))
        };
        let finished = self.stream.synchronize();
        queued.and(finished)?;
        let words = out.bytes()[..output_bytes].as_chunks().0.iter();
        Ok(words.map(|word| f32::from_le_bytes(*word)).collect())
    }
}

/// Bytes of scratch memory per token.
pub(crate) fn bytes_per_token(model: &DeviceModel) -> usize {
    let strides = ScratchStrides::new(model);
    let shared = (strides.qkv + strides.hidden).max(strides.intermediate);
    (2 * strides.hidden + shared) * model.precision.bytes()
}

/// Values from one row to the next.
struct ScratchStrides {
    hidden: usize,
    qkv: usize,
    intermediate: usize,
}

impl ScratchStrides {
    fn new(model: &DeviceModel) -> Self {
        let shape = &model.shape;
        Self {
            hidden: stride(shape.hidden_size),
            qkv: stride(3 * shape.hidden_size),
            intermediate: stride(shape.intermediate_size),
        }
    }
}

impl ScratchLayout {
    /// Intermediate states share their memory with queries, keys, values and context, which are used at other times.
    fn new(model: &DeviceModel, scratch: &DeviceBuffer, tokens: usize) -> Self {
        let ScratchStrides { hidden, qkv, .. } = ScratchStrides::new(model);
        let at = |values: usize| scratch.at(values * tokens * model.precision.bytes());
        Self {
            states: at(0),
            sums: at(hidden),
            qkv: at(2 * hidden),
            context: at(2 * hidden + qkv),
            intermediate: at(2 * hidden),
        }
    }
}

impl ForwardPass<'_> {
    /// Queues all layers.
    ///
    /// # Safety
    ///
    /// The memory must be as long as the batch needs, and must not be dropped before the stream is synchronized.
    unsafe fn run(&self) -> Result<(), GpuError> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.embed()?;
            for layer in &self.model.layers {
                self.attention(layer)?;
                self.mlp(layer)?;
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn embed(&self) -> Result<(), GpuError> {
        let (model, shape) = (self.model, &self.model.shape);
        let positions_offset = PackedBatch::byte_offset(self.batch.positions_offset);
        let params = EmbedParams {
            ids: self.input.address(),
            token_positions: self.input.at(positions_offset),
            word_embeddings: model.words.address(),
            position_embeddings: model.positions.address(),
            states: self.scratch.states,
            scale: model.norm.scale.address(),
            shift: model.norm.shift.address(),
            rows: self.batch.tokens,
            width: shape.hidden_size,
            vocab_size: shape.vocab_size,
            stride: stride(shape.hidden_size),
            epsilon: shape.epsilon,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launcher.embed(&params) }
    }

    /// The attention sublayer.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn attention(&self, layer: &DeviceLayer) -> Result<(), GpuError> {
        let (shape, scratch) = (&self.model.shape, &self.scratch);
        let position_bias = self.model.position_bias.as_ref();
        let tiles_offset = PackedBatch::byte_offset(self.batch.tiles_offset);
        let attention = AttentionParams {
            states: scratch.qkv,
            context: scratch.context,
            tiles: self.input.at(tiles_offset),
            position_bias: position_bias.map_or(NULL, DeviceBuffer::address),
            tile_count: self.batch.tiles,
            heads: shape.heads,
            head_size: shape.hidden_size / shape.heads,
            max_tokens: shape.max_tokens,
            states_stride: stride(3 * shape.hidden_size),
            context_stride: stride(shape.hidden_size),
        };
        let qkv = LinearOperands {
            input: scratch.states,
            residual: NULL,
            output: scratch.qkv,
        };
        let output = LinearOperands {
            input: scratch.context,
            residual: scratch.states,
            output: scratch.sums,
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.linear(&layer.qkv, qkv, Activation::None)?;
            self.launcher.attention(&attention)?;
            self.linear(&layer.attention_output, output, Activation::None)?;
            self.layer_norm(&layer.attention_norm)
        }
    }

    /// The MLP sublayer.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn mlp(&self, layer: &DeviceLayer) -> Result<(), GpuError> {
        let scratch = &self.scratch;
        let up = LinearOperands {
            input: scratch.states,
            residual: NULL,
            output: scratch.intermediate,
        };
        let down = LinearOperands {
            input: scratch.intermediate,
            residual: scratch.states,
            output: scratch.sums,
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.linear(&layer.mlp_up, up, self.model.shape.activation)?;
            self.linear(&layer.mlp_down, down, Activation::None)?;
            self.layer_norm(&layer.mlp_norm)
        }
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn linear(
        &self,
        layer: &DeviceLinear,
        operands: LinearOperands,
        activation: Activation,
    ) -> Result<(), GpuError> {
        let params = MatmulParams {
            a: operands.input,
            b: layer.weights.address(),
            bias: layer.bias.address(),
            residual: operands.residual,
            c: operands.output,
            rows: self.batch.tokens,
            columns: layer.outputs,
            depth: layer.inputs,
            a_stride: stride(layer.inputs),
            b_stride: stride(layer.inputs),
            c_stride: stride(layer.outputs),
            activation,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launcher.matmul(&params) }
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn layer_norm(&self, norm: &DeviceLayerNorm) -> Result<(), GpuError> {
        let shape = &self.model.shape;
        let params = LayerNormParams {
            sums: self.scratch.sums,
            states: self.scratch.states,
            scale: norm.scale.address(),
            shift: norm.shift.address(),
            rows: self.batch.tokens,
            width: shape.hidden_size,
            stride: stride(shape.hidden_size),
            epsilon: shape.epsilon,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launcher.layer_norm(&params) }
    }

    /// Queues pooling into `vectors`.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`]. `vectors` must be long enough for the vectors of all texts.
    unsafe fn pool(&self, pooling: &PoolingSpec, vectors: &DeviceBuffer) -> Result<(), GpuError> {
        let hidden = self.model.shape.hidden_size;
        let texts_offset = PackedBatch::byte_offset(self.batch.texts_offset);
        let params = PoolParams {
            states: self.scratch.states,
            texts: self.input.at(texts_offset),
            vectors: vectors.address(),
            text_count: self.batch.texts,
            mode_bits: pooling.mode_bits(hidden),
            width: hidden,
            stride: stride(hidden),
            vector_width: pooling.width,
            skipped_tokens: pooling.skipped_tokens,
            normalize: pooling.normalize,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launcher.pool(&params) }
    }
}

impl GrowableBuffer {
    /// The device buffer, with at least `bytes` bytes.
    fn with_bytes(&mut self, gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<&DeviceBuffer, GpuError> {
        let is_too_small = |buffer: &DeviceBuffer| buffer.bytes() < bytes;
        if self.buffer.as_ref().is_none_or(is_too_small) {
            // The old buffer is freed first, so that both never exist at once.
            self.buffer = None;
            self.buffer = Some(DeviceBuffer::new(gpu, with_reserve(bytes))?);
        }
        Ok(self.buffer.as_ref().expect("allocated above"))
    }

    /// The device buffer and its staging buffer, with at least `bytes` bytes each.
    fn with_staging(
        &mut self,
        gpu: &Arc<dyn Gpu>,
        bytes: usize,
    ) -> Result<(&DeviceBuffer, &mut PinnedBuffer), GpuError> {
        self.with_bytes(gpu, bytes)?;
        let buffer = self.buffer.as_ref().expect("allocated above");
        Ok((buffer, self.staging.with_bytes(gpu, bytes)?))
    }
}

fn write_words(staging: &mut PinnedBuffer, words: &[u32]) {
    let slots = staging.bytes_mut().as_chunks_mut::<4>().0.iter_mut();
    for (slot, word) in slots.zip(words) {
        *slot = word.to_le_bytes();
    }
}
