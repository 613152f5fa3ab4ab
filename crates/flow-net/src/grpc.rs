//! gRPC: Jina's services and the Open Inference Protocol's as clients and servers, how their messages are encoded, and the service that puts
//! them on a connection.
//!
//! `cargo xtask codegen` makes `generated/` from `proto/`. The messages themselves are in
//! [`flow_proto`], which knows nothing of gRPC.

pub(crate) mod codec;
mod large_message;
pub(crate) mod message;
mod message_limits;
pub mod metadata;
mod request_body;
mod routes;
mod service;
pub(crate) mod single_data_server;
mod slow_sender;

/// The path of the call with one request and one reply.
pub const SINGLE_DATA: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";

/// Clients and servers of package `jina`.
#[allow(
    clippy::all,
    clippy::pedantic,
    unreachable_pub,
    rustdoc::all,
    missing_docs,
    missing_debug_implementations,
    elided_lifetimes_in_paths,
    non_camel_case_types,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod generated {
    include!("generated/jina.rs");
}

/// Client and server of package `inference`.
#[allow(
    clippy::all,
    clippy::pedantic,
    unreachable_pub,
    rustdoc::all,
    missing_docs,
    missing_debug_implementations,
    elided_lifetimes_in_paths,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod inference {
    include!("generated/inference.rs");
}

pub use codec::envelope;
pub use generated::*;
pub use metadata::{BadMetadata, Metadata};
pub use routes::{GrpcReply, GrpcRoutes, GrpcServer};
pub use service::{GrpcService, is_call, refusal};
pub use single_data_server::SingleDataServer;

pub(crate) use codec::EnvelopeCodec;
pub(crate) use service::GRPC_ENCODING;
