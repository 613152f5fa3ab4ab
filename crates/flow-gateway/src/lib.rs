//! One client stream in, the plan walked, replies out.
//!
//! A request walks through these files in this order: `grpc.rs` (bytes → envelope; decides nothing) →
//! `stream.rs` (a place in the stream's window) → `schedule.rs` (which nodes are ready? send; collect;
//! next) → `merge.rs` (several branches → one) and `specialise.rs` (what a node sees of a request) →
//! `flow_net::Pool`. The reply is put together in `reply.rs` and goes up the same stairs.

#![warn(missing_docs)]

mod core;
mod discover;
mod gateway;
mod grpc;
mod merge;
mod reply;
mod schedule;
mod specialise;
mod stream;
mod target;

pub use gateway::{BindError, Config, Gateway};
