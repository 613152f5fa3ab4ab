//! The tables: one row for each key.
//!
//! A row is all that the parser, the JSON schema and the reference page know of a key. Modules of `forms` read its
//! value, and modules of `flow` decide what it means.

pub(crate) mod batching;
pub(crate) mod config;
pub(crate) mod container;
pub(crate) mod deployment;
pub(crate) mod entry;
pub(crate) mod executor;
pub(crate) mod flow;
pub(crate) mod gateway;
pub(crate) mod log;
pub(crate) mod monitoring;
pub(crate) mod sandbox;
pub(crate) mod top;
mod unsupported;

pub(crate) use unsupported::{ELSEWHERE, HTTP, INTERNAL, JINA2};
