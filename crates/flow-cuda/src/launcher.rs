//! Launches kernels: the Rust side of the parameter structures in `kernels/`, with grids and blocks.
//!
//! Two 32-bit numbers share a word, the first in its lower half, as in the memory of little-endian machines and of NVIDIA's
//! devices.

use crate::gpu::{DeviceAddress, GpuError, KernelLaunch};
use crate::kernel::{GpuPrecision, Kernel, Operation};
use crate::memory::CudaStream;

/// Queries of a text that attention processes together.
pub(crate) const TILE_QUERIES: usize = 16;
/// Maximum size of an attention head.
pub(crate) const HEAD_SIZE_MAX: usize = 256;
/// Maximum number of pooling modes.
pub(crate) const MODES_MAX: usize = 8;

/// Rows of a block in layer norms and embeddings.
const ROWS_PER_BLOCK: usize = 4;
/// The address of an optional operand that is absent.
pub(crate) const NULL: DeviceAddress = DeviceAddress(0);

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// The identity.
    #[default]
    None = 0,
    /// GELU, computed with the error function: `x · Φ(x)`.
    Gelu = 1,
    /// GELU, approximated with the hyperbolic tangent.
    GeluTanh = 2,
    /// `max(x, 0)`.
    Relu = 3,
}

/// Parameters of `C = activation(A × Bᵀ + bias) + residual`. Strides are multiples of 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatmulParams {
    pub(crate) a: DeviceAddress,
    pub(crate) b: DeviceAddress,
    /// May be [`NULL`].
    pub(crate) bias: DeviceAddress,
    /// May be [`NULL`].
    pub(crate) residual: DeviceAddress,
    pub(crate) c: DeviceAddress,
    /// Rows of A and C.
    pub(crate) rows: usize,
    /// Rows of B, columns of C.
    pub(crate) columns: usize,
    /// Columns of A and B.
    pub(crate) depth: usize,
    pub(crate) a_stride: usize,
    pub(crate) b_stride: usize,
    pub(crate) c_stride: usize,
    pub(crate) activation: Activation,
}

/// Parameters of attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionParams {
    /// Queries, keys and values.
    pub(crate) states: DeviceAddress,
    pub(crate) context: DeviceAddress,
    pub(crate) tiles: DeviceAddress,
    /// May be [`NULL`].
    pub(crate) position_bias: DeviceAddress,
    pub(crate) tile_count: usize,
    pub(crate) heads: usize,
    pub(crate) head_size: usize,
    pub(crate) max_tokens: usize,
    pub(crate) states_stride: usize,
    pub(crate) context_stride: usize,
}

/// Parameters of a layer norm of each row of `sums`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNormParams {
    pub(crate) sums: DeviceAddress,
    pub(crate) states: DeviceAddress,
    pub(crate) scale: DeviceAddress,
    pub(crate) shift: DeviceAddress,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) epsilon: f32,
}

/// Parameters of embeddings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmbedParams {
    pub(crate) ids: DeviceAddress,
    /// The row of each token's position embedding.
    pub(crate) token_positions: DeviceAddress,
    pub(crate) word_embeddings: DeviceAddress,
    pub(crate) position_embeddings: DeviceAddress,
    pub(crate) states: DeviceAddress,
    pub(crate) scale: DeviceAddress,
    pub(crate) shift: DeviceAddress,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) vocab_size: usize,
    pub(crate) stride: usize,
    pub(crate) epsilon: f32,
}

/// Parameters of pooling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolParams {
    pub(crate) states: DeviceAddress,
    pub(crate) texts: DeviceAddress,
    pub(crate) vectors: DeviceAddress,
    pub(crate) text_count: usize,
    pub(crate) mode_bits: u32,
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) vector_width: usize,
    pub(crate) skipped_tokens: usize,
    pub(crate) normalize: bool,
}

/// Queues kernels of one precision on a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelLauncher<'a> {
    pub(crate) stream: &'a CudaStream,
    pub(crate) precision: GpuPrecision,
}

impl KernelLauncher<'_> {
    /// Queues a matrix product.
    ///
    /// # Safety
    ///
    /// The memory must be as long as the parameters say, and must not be dropped before the stream is synchronized.
    pub(crate) unsafe fn matmul(&self, p: &MatmulParams) -> Result<(), GpuError> {
        let tiles = |side: usize| [p.columns.div_ceil(side), p.rows.div_ceil(side)];
        let [across, down] = tiles(128);
        let is_large = across * down >= self.stream.gpu().multiprocessors() as usize;
        let (operation, grid, block) = if is_large {
            (Operation::Matmul, tiles(128), 256)
        } else if self.precision == GpuPrecision::F32 {
            (Operation::MatmulSmall, tiles(64), 256)
        } else {
            (Operation::MatmulSmall, tiles(64), 128)
        };
        let words = [
            p.a.0,
            p.b.0,
            p.bias.0,
            p.residual.0,
            p.c.0,
            pair(p.rows, p.columns),
            pair(p.depth, p.a_stride),
            pair(p.b_stride, p.c_stride),
            p.activation as u64,
        ];
        // SAFETY: the words are a `MatmulParams` of the kernel. The caller guarantees the memory.
        unsafe { self.launch(operation, grid, block, &words) }
    }

    /// Queues attention.
    ///
    /// # Safety
    ///
    /// As for [`Self::matmul`].
    pub(crate) unsafe fn attention(&self, p: &AttentionParams) -> Result<(), GpuError> {
        let is_half = self.precision.bytes() == 2;
        let (operation, tiles_per_block, block) = match p.head_size {
            32 if is_half => (Operation::Attention32, 4, 128),
            64 if is_half => (Operation::Attention64, 2, 64),
            _ => (Operation::AttentionGeneric, 1, 128),
        };
        let grid = [(p.tile_count * p.heads).div_ceil(tiles_per_block), 1];
        let scale = 1.0 / (p.head_size as f32).sqrt();
        let words = [
            p.states.0,
            p.context.0,
            p.tiles.0,
            p.position_bias.0,
            pair(p.tile_count, p.heads),
            pair(p.head_size, p.max_tokens),
            pair(p.states_stride, p.context_stride),
            u64::from(scale.to_bits()),
        ];
        // SAFETY: the words are an `AttentionParams` of the kernel. The caller guarantees the memory.
        unsafe { self.launch(operation, grid, block, &words) }
    }

    /// Queues a layer norm.
    ///
    /// # Safety
    ///
    /// As for [`Self::matmul`].
    pub(crate) unsafe fn layer_norm(&self, p: &LayerNormParams) -> Result<(), GpuError> {
        let words = [
            p.sums.0,
            p.states.0,
            p.scale.0,
            p.shift.0,
            pair(p.rows, p.width),
            pair_with_float(p.stride, p.epsilon),
        ];
        let grid = [p.rows.div_ceil(ROWS_PER_BLOCK), 1];
        // SAFETY: the words are a `LayerNormParams` of the kernel. The caller guarantees the memory.
        unsafe { self.launch(Operation::LayerNorm, grid, 128, &words) }
    }

    /// Queues embeddings.
    ///
    /// # Safety
    ///
    /// As for [`Self::matmul`].
    pub(crate) unsafe fn embed(&self, p: &EmbedParams) -> Result<(), GpuError> {
        let words = [
            p.ids.0,
            p.token_positions.0,
            p.word_embeddings.0,
            p.position_embeddings.0,
            p.states.0,
            p.scale.0,
            p.shift.0,
            pair(p.rows, p.width),
            pair(p.vocab_size, p.stride),
            pair_with_float(p.stride, p.epsilon),
        ];
        let grid = [p.rows.div_ceil(ROWS_PER_BLOCK), 1];
        // SAFETY: the words are an `EmbedParams` of the kernel. The caller guarantees the memory.
        unsafe { self.launch(Operation::Embed, grid, 128, &words) }
    }

    /// Queues pooling.
    ///
    /// # Safety
    ///
    /// As for [`Self::matmul`].
    pub(crate) unsafe fn pool(&self, p: &PoolParams) -> Result<(), GpuError> {
        let words = [
            p.states.0,
            p.texts.0,
            p.vectors.0,
            pair(p.mode_bits as usize, p.width),
            pair(p.stride, p.vector_width),
            pair(p.skipped_tokens, usize::from(p.normalize)),
        ];
        // SAFETY: the words are a `PoolParams` of the kernel. The caller guarantees the memory.
        unsafe { self.launch(Operation::Pool, [p.text_count, 1], 128, &words) }
    }

    /// # Safety
    ///
    /// As for [`CudaStream::launch`].
    unsafe fn launch(
        &self,
        operation: Operation,
        grid: [usize; 2],
        block: u32,
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let kernel = Kernel::find(operation, self.precision).ok_or_else(|| GpuError::Failed {
            call: "launch",
            reason: format!("there is no {operation:?} kernel for {}", self.precision),
        })?;
        let launch = KernelLaunch {
            kernel,
            grid: grid.map(|count| low(count) as u32),
            block,
            parameters,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.stream.launch(&launch) }
    }
}

/// Checks that a count fits into the 31 bits that kernels use. More things do not fit into a device's memory.
fn low(number: usize) -> u64 {
    assert!(
        i32::try_from(number).is_ok(),
        "{number} exceeds the counters of kernels"
    );
    number as u64
}

/// Two numbers in a word.
fn pair(first: usize, second: usize) -> u64 {
    low(first) | low(second) << 32
}

/// A number and a float in a word.
fn pair_with_float(first: usize, second: f32) -> u64 {
    low(first) | u64::from(second.to_bits()) << 32
}
