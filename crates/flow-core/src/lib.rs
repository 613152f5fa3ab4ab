//! The words that every part of flow shares.
//!
//! Documents and arrays as executors see them, the names of things, how long a request may still take,
//! and what is said of one that did not succeed. Nothing in here does anything: no task, no socket, no
//! clock but the one a [`Deadline`] is compared with.

mod deadline;
mod document;
mod failure;
mod name;
mod option;
pub mod parameters;
pub mod query;
mod suggest;
mod tensor;
mod workers;

pub use deadline::Deadline;
pub use document::{
    AccessPaths, BadAccessPath, BadDocument, Document, DocumentArray, Flavour, from_struct,
    to_struct,
};
pub use failure::{Chain, Code, Failure};
pub use name::{BadEndpoint, BadName, Endpoint, NodeName, RequestId};
pub use option::BadOption;
pub use suggest::closest;
pub use tensor::{DataType, Tensor};
pub use workers::{BadWorkers, Workers};
