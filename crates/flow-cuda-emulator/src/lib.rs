//! Runs the kernels of `flow-cuda` on machines without a GPU, to test what they compute.
//!
//! The same CUDA C++ is compiled by the machine's C++ compiler. `kernels/emulate/device.h` replaces what only NVIDIA's
//! compiler provides, and documents what is emulated and how. This crate loads the compiled library as a
//! [`flow_cuda::Gpu`] whose memory is host memory.
//!
//! The emulator is stricter than a GPU. Queued work runs only when a caller synchronizes, so that reading too early is
//! detected. Memory is initialized with NaN, and writes outside an allocation are detected when it is freed. Threads run in a
//! pseudo-random order.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "memory by address, and a library compiled from C++; each block says why it is sound"
)]

mod compile;
mod gpu;

pub use compile::{CompileError, compile_library, kernels_folder};
pub use gpu::{EmulatedGpu, EmulatorSettings};
