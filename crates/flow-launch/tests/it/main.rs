//! Flows of real processes: how they start, what happens when one dies, and how they end.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail anywhere, in its harness too"
)]

mod change;
mod end;
mod harness;
mod preparation;
mod restart;
mod start;
