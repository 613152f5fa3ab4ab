//! Runs AMX's instructions on a machine without AMX, so that tests can prove what our tiles compute.
//!
//! Such a machine answers each of these instructions with the signal for illegal ones. [`install`] catches it, does
//! to memory and to the thread's tiles what Intel's manual says, and goes on behind the instruction. So the very
//! code runs that a machine with AMX would run, only a few hundred times slower.
//!
//! It is as strict as the manual in what tiles must be: an instruction whose tiles do not go together ends the
//! process, as does any other illegal one. What it cannot show is speed.
//!
//! - `decode.rs`: which instruction stands there, and with which registers.
//! - `tiles.rs`: what it does; no signals, no addresses.
//! - `signal.rs`: between the two, what belongs to the system.
//!
//! Source: Intel, *Architecture Instruction Set Extensions Programming Reference*, chapter 3 (AMX), and volume 2
//! of the *Software Developer's Manual* for each instruction.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "a handler of signals that changes registers; each block says why it is sound"
)]

mod decode;
mod signal;
mod tiles;

pub use signal::install;
