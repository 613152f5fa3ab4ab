//! The arithmetic of transformer encoders on GPUs of NVIDIA's.
//!
//! What a device must be able to do is one small trait, [`Gpu`]. NVIDIA's driver implements it, and so does
//! an emulator that runs the same kernels on any machine (`flow-cuda-emulator`); all else here knows only the
//! trait. The kernels are CUDA C++ of our own (`kernels/`), and their names stand in one table ([`Kernel`]).
//!
//! An [`Engine`] has a model's weights in a device's memory, once, and some streams with memory of their own. Texts
//! come as ids without padding and go through all layers on one stream (`workspace.rs`): one copy to the device, seven
//! kernels for each layer, pooling, and one copy of the vectors back. A text has the same vector, bit for bit,
//! whatever texts are beside it. CUDA graphs, which would queue those kernels in one call, are not used.
//!
//! # Kernels
//!
//! | file | what | how |
//! |---|---|---|
//! | `product.cuh` | products with bias, activation and residual | tensor cores, tiles of 128 × 128 and 64 × 64, three stages of `cp.async`, `ldmatrix` from swizzled shared memory |
//! | `product_exact.cuh` | the same in 32-bit floats | 8 × 8 sums a thread, two stages |
//! | `attention.cuh` | heads of 32 and 64 values, in 2-byte formats | a warp for 16 queries, soft-max brought up to date key by key (FlashAttention) |
//! | `attention_any.cuh` | other heads, and 32-bit floats | a key for each lane |
//! | `rows.cuh` | embeddings and layer norms | a warp for a row |
//! | `pool.cuh` | pooling and normalising | a block for a text |
//!
//! Turing (7.5) multiplies half precision in smaller steps, copies without `cp.async`, and has neither bf16 nor TF32, which
//! are refused there by name. Soft-max, layer norms, GELU and pooling are in 32-bit floats everywhere.
//!
//! As nvcc 13.0 compiles them, no kernel spills a register, and none needs more than 48 KiB of shared memory. On 9.0 the
//! large products take 112 to 128 registers (two blocks find room on a multiprocessor), the small ones 71 to 98, attention
//! on tensor cores 107 to 156. Hopper's own wider instructions (wgmma) are not used. None was measured on a GPU yet.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "memory of another device, by address; each block says why it is sound"
)]

mod batch;
mod driver;
mod embedded;
mod encoder;
mod gpu;
mod kernel;
mod matrix;
mod memory;
mod model;
mod convert;
mod launcher;
mod pooling;
mod upload;
mod workspace;

pub use driver::{Cuda, Device, Found, NoGpu, OLDEST};
pub use embedded::{has_kernels, kernel_names};
pub use encoder::{Engine, STREAMS};
pub use gpu::{Address, Capability, Gpu, GpuError, Launch, Memory, Queue};
pub use kernel::{Format, Kernel, Operation};
pub use matrix::{Epilogue, Matrix, Multiplier};
pub use model::{EmbeddingWeights, LayerWeights, LinearWeights, Loader, NormWeights, Shape};
pub use launcher::Activation;
pub use pooling::{Pooling, PoolingMode};
