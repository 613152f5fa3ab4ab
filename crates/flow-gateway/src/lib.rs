//! One client stream in, the plan walked, replies out.
//!
//! A request walks through these files in this order: `grpc.rs` (bytes → envelope; decides nothing) →
//! `stream.rs` (a place in the stream's window) → `request.rs` (one request, one reply) → `accepts.rs`
//! (does some executor accept each parameter?) → `schedule.rs` (which nodes are ready? send; collect;
//! next) → `call.rs` (what a node gets: `merge.rs`, `condition.rs`, `order.rs`, `specialise.rs`) →
//! `visit.rs` (shards, and what goes before and after them) → `flow_net::Pool`. The reply is put together
//! in `reply.rs` and goes up the same stairs.
//!
//! Beside the requests, `attend.rs` watches over the nodes, and `current.rs` puts another placement in the
//! place of the one before; `meter.rs` counts them where somebody wants to know, and `failure_log.rs` writes of
//! those that fail.

#![warn(missing_docs)]

mod accepts;
mod attend;
mod call;
mod condition;
mod core;
mod current;
mod discover;
mod failure_log;
mod gateway;
mod grpc;
mod merge;
mod meter;
mod offered;
mod order;
mod parts;
mod reply;
mod request;
mod schedule;
mod specialise;
mod stream;
mod target;
mod visit;

pub use current::Placed;
pub use gateway::{BindError, Config, Gateway, Placements};
