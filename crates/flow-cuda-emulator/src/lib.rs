//! Runs the kernels of `flow-cuda` on a machine without a GPU, so that tests can prove what they compute.
//!
//! The same CUDA C++ is compiled by the machine's own compiler, with `kernels/emulate/machine.h` in place of what only
//! NVIDIA's knows; that file says what is emulated and how. Here its library becomes a [`flow_cuda::Gpu`] whose memory is the
//! machine's.
//!
//! It is stricter than a GPU. What is queued is done only when somebody waits for it, so reading too early is found.
//! Memory begins as values that are no numbers, and writing beside it is found when it is given back. Threads run in
//! an order drawn from a seed.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "memory by address, and a library compiled from C++; each block says why it is sound"
)]

mod compile;
mod gpu;

pub use compile::{BadCompile, kernels, library_of};
pub use gpu::{Emulator, Settings};
