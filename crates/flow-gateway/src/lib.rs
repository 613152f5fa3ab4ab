//! The gateway: one client stream in, the flow's plan executed, replies out.
//!
//! A request passes these files in this order: `grpc.rs` translates it for `service.rs`, which admits it
//! (`admission.rs`, `limit.rs`). On a stream, `stream.rs` keeps the window and the order. `request.rs` runs one
//! request, whose parameters `parameter_check.rs` checks, and `execution.rs` its plan: which nodes are ready, what each gets (`node_input.rs`), and the call of each
//! (`node_call.rs`, which does the work of Jina's heads) through a [`flow_net::Pool`]. `reply.rs` builds the reply.
//!
//! `auth.rs` refuses requests without a valid API key, if the gateway has keys.
//!
//! `supervisor.rs` says what the console asks of the supervisor, which this crate does not know.
//!
//! Besides requests, `background.rs` watches the nodes, `snapshot_store.rs` replaces one placement by the next, and
//! `metrics.rs` counts, and `request_log.rs` logs requests that fail or are slow, and records all of them for the
//! console (`console.rs`). `counts.rs` counts the little that `flow top` shows (`traffic.rs`), in every gateway.

#![warn(missing_docs)]

mod admission;
pub mod auth;
mod backend;
mod background;
mod condition;
mod config;
mod console;
mod counts;
mod discovery;
mod docs;
mod document_order;
mod execution;
mod gateway;
mod gateway_limits;
mod generate;
mod grpc;
mod heavy;
mod http;
mod known_endpoints;
mod limit;
mod merge;
mod metrics;
mod node;
mod node_call;
mod node_input;
mod node_parameters;
mod origin;
mod parameter_check;
mod parts;
mod pieces;
mod pools;
mod ports;
mod protection;
mod reply;
mod request;
mod request_log;
mod request_record;
mod request_span;
mod service;
mod shard_replies;
mod shortened;
mod snapshot;
mod snapshot_store;
mod stages;
mod state_metrics;
mod stream;
pub mod supervisor;
mod sync;
mod target;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{Config, GatewayBindError};
pub use counts::Counts;
pub use gateway::{Gateway, Placements};
pub use gateway_limits::GatewayLimits;
pub use metrics::RUNTIME;
pub use pools::{NodeError, PlacementError};
pub use request_log::ACCESS_LOG;
pub use snapshot_store::Placed;
pub use traffic::{ReplicaTraffic, Traffic, TrafficReader};
