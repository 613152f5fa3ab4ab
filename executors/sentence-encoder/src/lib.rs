//! An executor that sets the embedding of documents that have a text.
//!
//! `config.rs` is what stands under `uses_with:`, and `executor.rs` holds the endpoints: documents → texts, vectors →
//! documents. The model itself is [`flow_models`]' business.

#![warn(missing_docs)]

mod config;
mod executor;
mod needs;

pub use config::{BadOption, With};
pub use executor::SentenceEncoder;
pub use flow_core::{AccessPaths, BadAccessPath};
pub use needs::{Needs, needs};
