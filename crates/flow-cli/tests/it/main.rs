//! The program `flow` as its users run it: real processes, exit codes and output.
//!
//! One program for all files, so that it is linked once and their tests run side by side.
#![expect(
    clippy::unwrap_used,
    reason = "a test may fail anywhere, in its helpers too"
)]

mod commands;
mod fake;
mod gateway;
mod post;
mod running;
mod terminal;
mod unread_output;
mod up;
