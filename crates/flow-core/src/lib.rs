//! The types that every part of flow shares.
//!
//! Documents and arrays, names, deadlines and priorities of requests, and failures. This crate is pure data: it starts
//! no task, opens no socket and reads no clock.

#![warn(missing_docs)]

pub mod batching;
mod byte_size;
mod call_options;
mod cosine;
mod deadline;
pub mod discovery;
mod document;
mod embedding_type;
mod failure;
pub mod json;
mod line_budget;
mod model;
mod name;
mod option;
pub mod parameters;
pub mod query;
mod request_limits;
mod secret;
mod suggest;
mod tensor;
mod trace_context;
mod usage;
mod workers;

pub use byte_size::{BadByteSize, ByteSize};
pub use call_options::{CallOptions, Origin, Priority};
pub use cosine::cosine;
pub use deadline::Deadline;
pub use document::{
    AccessPaths, BadAccessPath, BadDocument, DocArrayVersion, Document, DocumentArray,
    DocumentLimits, document_array_message, from_struct, to_struct,
};
pub use embedding_type::EmbeddingType;
pub use failure::{Chain, Code, Exception, Failure};
pub use line_budget::LineBudget;
pub use model::{ModelInfo, ModelKind, Models, ShorterVectors};
pub use name::{BadEndpoint, BadName, Endpoint, NodeName, RequestId};
pub use option::BadOption;
pub use request_limits::{RequestLimits, RequestTooLarge, check_priority};
pub use secret::{Secret, has_password, is_secret_name, without_passwords};
pub use suggest::closest;
pub use tensor::{DataType, Tensor};
pub use trace_context::TraceContext;
pub use usage::Usage;
pub use workers::{BadWorkers, Workers};
