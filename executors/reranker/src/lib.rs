//! An executor that orders the matches of documents by how well each answers the document's text.
//!
//! `config.rs` is its configuration, the keys under `uses_with:`. `executor.rs` has its endpoints. `texts.rs` takes the texts of
//! queries and their matches; `ranking.rs` orders the matches by their scores. The model itself
//! runs in [`flow_models`].

#![warn(missing_docs)]

mod config;
mod executor;
mod ranking;
mod texts;

pub use config::RerankerConfig;
pub use executor::Reranker;
pub use flow_core::{AccessPaths, BadAccessPath};
pub use flow_inference::UnsupportedPrecision;
