//! The index as a process: what it has acknowledged is there, whatever ends or hinders it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

mod full_disk;
mod kill;
mod process;
