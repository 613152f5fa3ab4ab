//! Each kernel's parameters, grid and block: the other half of the structures in `kernels/`.
//!
//! Numbers of 32 bits lie two in a word, the first in its lower half, as in memory of NVIDIA's devices and of all
//! machines that these are found in.

use crate::gpu::{Address, GpuError, Launch};
use crate::kernel::{Format, Kernel, Operation};
use crate::memory::Stream;

/// Queries of one text that attention answers together.
pub(crate) const TILE_QUERIES: usize = 16;
/// The widest head there can be.
pub(crate) const HEAD_WIDTH_MAX: usize = 256;
/// Ways to pool that can be put one after the other.
pub(crate) const MODES_MAX: usize = 8;

const ROWS_PER_BLOCK: usize = 4;
/// What stands for memory that there is none of.
pub(crate) const NOWHERE: Address = Address(0);

/// What is done to the sums of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    None = 0,
    /// x · Φ(x), exactly.
    Gelu = 1,
    /// The same, by a hyperbolic tangent.
    GeluTanh = 2,
    /// Nothing below 0.
    Relu = 3,
}

/// C = f(A × Bᵀ + bias) + residual. Strides are multiples of 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) a: Address,
    pub(crate) b: Address,
    pub(crate) bias: Address,
    pub(crate) residual: Address,
    pub(crate) c: Address,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) a_stride: usize,
    pub(crate) b_stride: usize,
    pub(crate) c_stride: usize,
    pub(crate) activation: Activation,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub(crate) states: Address,
    pub(crate) context: Address,
    pub(crate) tiles: Address,
    pub(crate) distances: Address,
    pub(crate) tile_count: usize,
    pub(crate) heads: usize,
    pub(crate) width: usize,
    pub(crate) span: usize,
    pub(crate) states_stride: usize,
    pub(crate) context_stride: usize,
}

/// A layer norm of each row of `sums`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm {
    pub(crate) sums: Address,
    pub(crate) states: Address,
    pub(crate) scale: Address,
    pub(crate) shift: Address,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) epsilon: f32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Embed {
    pub(crate) ids: Address,
    pub(crate) places: Address,
    pub(crate) words: Address,
    pub(crate) positions: Address,
    pub(crate) states: Address,
    pub(crate) scale: Address,
    pub(crate) shift: Address,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) stride: usize,
    pub(crate) epsilon: f32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) states: Address,
    pub(crate) texts: Address,
    pub(crate) vectors: Address,
    pub(crate) text_count: usize,
    pub(crate) modes: u32,
    pub(crate) width: usize,
    pub(crate) stride: usize,
    pub(crate) vector_width: usize,
    pub(crate) skipped: usize,
    pub(crate) normalize: bool,
}

/// Queues operations on numbers of one format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operations<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) format: Format,
}

impl Operations<'_> {
    /// # Safety
    ///
    /// The memory is as long as the parameters say, and is not dropped before the stream is finished.
    pub(crate) unsafe fn product(&self, p: &Product) -> Result<(), GpuError> {
        let tiles = |side: usize| [p.columns.div_ceil(side), p.rows.div_ceil(side)];
        let [across, down] = tiles(128);
        let fills = across * down >= self.stream.gpu().multiprocessors() as usize;
        let (operation, grid, block) = if fills {
            (Operation::Product, tiles(128), 256)
        } else if self.format == Format::F32 {
            (Operation::ProductSmall, tiles(64), 256)
        } else {
            (Operation::ProductSmall, tiles(64), 128)
        };
        let words = [
            p.a.0,
            p.b.0,
            p.bias.0,
            p.residual.0,
            p.c.0,
            two(p.rows, p.columns),
            two(p.depth, p.a_stride),
            two(p.b_stride, p.c_stride),
            p.activation as u64,
        ];
        // SAFETY: these are the parameters of `ProductParameters`; the caller answers for the memory.
        unsafe { self.launch(operation, grid, block, &words) }
    }

    /// # Safety
    ///
    /// As for [`Self::product`].
    pub(crate) unsafe fn attention(&self, p: &Attention) -> Result<(), GpuError> {
        let is_half = self.format.bytes() == 2;
        let (operation, work_per_block, block) = match p.width {
            32 if is_half => (Operation::Attention32, 4, 128),
            64 if is_half => (Operation::Attention64, 2, 64),
            _ => (Operation::AttentionAny, 1, 128),
        };
        let grid = [(p.tile_count * p.heads).div_ceil(work_per_block), 1];
        let scale = 1.0 / (p.width as f32).sqrt();
        let words = [
            p.states.0,
            p.context.0,
            p.tiles.0,
            p.distances.0,
            two(p.tile_count, p.heads),
            two(p.width, p.span),
            two(p.states_stride, p.context_stride),
            u64::from(scale.to_bits()),
        ];
        // SAFETY: these are the parameters of `AttentionParameters`; the caller answers for the memory.
        unsafe { self.launch(operation, grid, block, &words) }
    }

    /// # Safety
    ///
    /// As for [`Self::product`].
    pub(crate) unsafe fn norm(&self, p: &Norm) -> Result<(), GpuError> {
        let words = [
            p.sums.0,
            p.states.0,
            p.scale.0,
            p.shift.0,
            two(p.rows, p.width),
            with_float(p.stride, p.epsilon),
        ];
        let grid = [p.rows.div_ceil(ROWS_PER_BLOCK), 1];
        // SAFETY: these are the parameters of `NormParameters`; the caller answers for the memory.
        unsafe { self.launch(Operation::Norm, grid, 128, &words) }
    }

    /// # Safety
    ///
    /// As for [`Self::product`].
    pub(crate) unsafe fn embed(&self, p: &Embed) -> Result<(), GpuError> {
        let words = [
            p.ids.0,
            p.places.0,
            p.words.0,
            p.positions.0,
            p.states.0,
            p.scale.0,
            p.shift.0,
            two(p.rows, p.width),
            two(p.vocabulary, p.stride),
            with_float(p.stride, p.epsilon),
        ];
        let grid = [p.rows.div_ceil(ROWS_PER_BLOCK), 1];
        // SAFETY: these are the parameters of `EmbedParameters`; the caller answers for the memory.
        unsafe { self.launch(Operation::Embed, grid, 128, &words) }
    }

    /// # Safety
    ///
    /// As for [`Self::product`].
    pub(crate) unsafe fn pool(&self, p: &Pool) -> Result<(), GpuError> {
        let words = [
            p.states.0,
            p.texts.0,
            p.vectors.0,
            two(p.modes as usize, p.width),
            two(p.stride, p.vector_width),
            two(p.skipped, usize::from(p.normalize)),
        ];
        // SAFETY: these are the parameters of `PoolParameters`; the caller answers for the memory.
        unsafe { self.launch(Operation::Pool, [p.text_count, 1], 128, &words) }
    }

    /// # Safety
    ///
    /// As for [`Stream::launch`].
    unsafe fn launch(
        &self,
        operation: Operation,
        grid: [usize; 2],
        block: u32,
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let kernel = Kernel::of(operation, self.format).ok_or_else(|| GpuError::Failed {
            call: "launch",
            reason: format!("there is no {operation:?} for {}", self.format),
        })?;
        let launch = Launch {
            kernel,
            grid: grid.map(|count| low(count) as u32),
            block,
            parameters,
        };
        // SAFETY: what the caller promises.
        unsafe { self.stream.launch(&launch) }
    }
}

/// Numbers of things that lie in a device's memory have 31 bits: more of them do not fit there.
fn low(number: usize) -> u64 {
    assert!(
        i32::try_from(number).is_ok(),
        "{number} is more than kernels count to"
    );
    number as u64
}

fn two(first: usize, second: usize) -> u64 {
    low(first) | low(second) << 32
}

fn with_float(first: usize, second: f32) -> u64 {
    low(first) | u64::from(second.to_bits()) << 32
}
