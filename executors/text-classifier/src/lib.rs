//! An executor that classifies the texts of documents.
//!
//! `config.rs` is its configuration, the keys under `uses_with:`. `executor.rs` has its endpoints. `texts.rs` takes the texts, and
//! `label_scores.rs` writes the scores. The model itself runs in [`flow_models`].

#![warn(missing_docs)]

mod config;
mod executor;
mod label_scores;
mod texts;

pub use config::{InvalidClassifierConfig, TextClassifierConfig};
pub use executor::TextClassifierExecutor;
pub use flow_core::{AccessPaths, BadAccessPath};
