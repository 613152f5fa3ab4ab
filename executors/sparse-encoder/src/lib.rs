//! An executor that encodes the texts of documents as sparse vectors.
//!
//! `config.rs` is its configuration, the keys under `uses_with:`. `executor.rs` has its endpoint, and `vector_tag.rs` writes the
//! vectors. The model itself runs in [`flow_models`].

#![warn(missing_docs)]

mod config;
mod executor;
mod vector_tag;

pub use config::{InvalidSparseConfig, SparseEncoderConfig};
pub use executor::SparseEncoderExecutor;
pub use flow_core::{AccessPaths, BadAccessPath};
