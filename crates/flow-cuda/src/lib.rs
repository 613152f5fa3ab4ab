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

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "memory of another device, by address; each block says why it is sound"
)]

mod batch;
mod driver;
mod embedded;
mod engine;
mod gpu;
mod kernel;
mod matrix;
mod memory;
mod model;
mod numbers;
mod operations;
mod pooling;
mod upload;
mod workspace;

pub use driver::{Cuda, Device, Found, NoGpu, OLDEST};
pub use embedded::{has_kernels, kernel_names};
pub use engine::{Engine, STREAMS};
pub use gpu::{Address, Capability, Gpu, GpuError, Launch, Memory, Queue};
pub use kernel::{Format, Kernel, Operation};
pub use matrix::{Epilogue, Matrix, Multiplier};
pub use model::{EmbeddingWeights, LayerWeights, LinearWeights, Loader, NormWeights, Shape};
pub use operations::Activation;
pub use pooling::{Pooling, PoolingMode};
