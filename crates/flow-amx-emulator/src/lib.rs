//! Emulates AMX's instructions on machines without AMX, to test what the AMX kernels compute.
//!
//! Such a machine raises SIGILL for each of these instructions. [`install`] installs a signal handler that emulates the
//! instruction, on memory and on tile registers of the thread, and continues behind it. The kernels therefore run the same
//! code as on a machine with AMX, a few hundred times slower.
//!
//! The emulator is as strict as Intel's manual: an instruction whose tiles do not match ends the process, as does any other
//! illegal instruction. It does not measure speed.
//!
//! - `decode.rs` decodes an instruction and its operands.
//! - `tiles.rs` executes it, and does not depend on signals or addresses.
//! - `signal.rs` connects them with the operating system.
//!
//! Sources: Intel, *Architecture Instruction Set Extensions Programming Reference*, chapter 3 (AMX), and volume 2 of the
//! *Software Developer's Manual* for each instruction.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "a signal handler that changes registers; each block says why it is sound"
)]

mod decode;
mod signal;
mod tiles;

pub use signal::install;
