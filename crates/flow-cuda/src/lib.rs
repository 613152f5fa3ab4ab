//! The arithmetic of transformer encoders on GPUs of NVIDIA's.
//!
//! What a device must be able to do is one small trait, [`Gpu`]. NVIDIA's driver implements it, and so does
//! an emulator that runs the same kernels on any machine; all else here knows only the trait. The kernels
//! are CUDA C++ of our own (`kernels/`), and their names stand in one table ([`Kernel`]).

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "memory of another device, by address; each block says why it is sound"
)]

mod driver;
mod embedded;
mod gpu;
mod kernel;

pub use driver::{Cuda, Device, Found, NoGpu, OLDEST};
pub use embedded::{has_kernels, kernel_names};
pub use gpu::{Address, Capability, Gpu, GpuError, Launch, Memory, Queue};
pub use kernel::{Format, Kernel, Operation};
