//! Flows of real processes: start, restarts, changes and shutdown.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail anywhere, in its harness too"
)]

mod change;
mod end;
mod harness;
mod logs;
mod preparation;
mod restart;
mod start;
