//! The arithmetic of transformer encoders on NVIDIA GPUs.
//!
//! The trait [`Gpu`] has what the crate needs of a device. NVIDIA's driver implements it, and so does an emulator that runs
//! the same kernels on any machine (`flow-cuda-emulator`); all other code knows only the trait. The kernels are CUDA C++
//! (`kernels/`), listed in one table ([`Kernel`]).
//!
//! A [`CudaEncoder`] has a model's weights in a device's memory, once, and several streams with buffers of their own. Texts
//! come as token ids without padding and pass through all layers on one stream (`workspace.rs`): one copy to the device,
//! seven kernels per layer, pooling, and one copy of the vectors back. The vector of a text is the same, bit for bit,
//! whatever the other texts are. CUDA graphs, which would queue all kernels in one call, are not used.
//!
//! # Kernels
//!
//! | file | operation | method |
//! |---|---|---|
//! | `matmul.cuh` | matrix products with bias, activation and residual | tensor cores, tiles of 128 × 128 and 64 × 64, three stages of `cp.async`, `ldmatrix` from swizzled shared memory, as in CUTLASS |
//! | `matmul_f32.cuh` | the same in 32-bit floats | 8 × 8 sums per thread, two stages |
//! | `attention.cuh` | heads of 32 and 64 values, in 2-byte formats | a warp for 16 queries, online softmax (FlashAttention) |
//! | `attention_generic.cuh` | other heads, and 32-bit floats | a key for each lane |
//! | `layer_norm.cuh` | embeddings and layer norms | a warp for a row |
//! | `pooling.cuh` | pooling and normalization | a block for a text |
//!
//! Turing (7.5) multiplies half precision in smaller steps, copies without `cp.async`, and supports neither bf16 nor TF32;
//! requesting them there is an error. Softmax, layer norms, GELU and pooling are computed in 32-bit floats everywhere.
//!
//! As nvcc 13.0 compiles them, no kernel spills registers, and none needs more than 48 KiB of shared memory. For 9.0, the
//! large products take 119 to 127 registers (two blocks fit on a multiprocessor), the small ones 71 to 83, and attention on
//! tensor cores 106 to 156. Hopper's wider instructions (wgmma) are not used.
//!
//! On an H100, for 32,768 tokens of a model with 384 hidden values, products in half precision ran at 154 to 288 TFLOP/s.
//! More stages, tiles of 256 × 128, and fewer warps for a tile were not faster there.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "memory of another device, by address; each block says why it is sound"
)]

mod batch;
mod convert;
mod driver;
mod embedded;
mod encoder;
mod error;
mod gpu;
mod kernel;
mod launcher;
mod matrix;
mod memory;
mod model;
mod pooling;
mod upload;
mod workspace;

pub use batch::TokenIds;
pub use driver::{CudaDevice, CudaDriver, DeviceInfo};
pub use embedded::{has_kernels, kernel_names};
pub use encoder::{CudaEncoder, STREAMS};
pub use error::{GpuUnavailable, MIN_CAPABILITY};
pub use gpu::{Capability, DeviceAddress, Gpu, GpuError, KernelLaunch, MemoryInfo, StreamHandle};
pub use kernel::{GpuPrecision, Kernel, Operation};
pub use launcher::Activation;
pub use matrix::{DeviceMatrix, Epilogue, MatrixMultiplier};
pub use model::{
    EmbeddingWeights, LayerNormWeights, LayerWeights, LinearWeights, ModelLoader, ModelShape,
};
pub use pooling::{PoolingMode, PoolingSpec};

/// The file of NVML, the library of the driver that reports memory, load and power of GPUs. This is its name where the driver is
/// installed without development files.
pub const NVML: &str = "libnvidia-ml.so.1";
