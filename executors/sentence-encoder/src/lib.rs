//! An executor that sets the embedding of documents that have a text.
//!
//! `config.rs` is its configuration, the keys under `uses_with:`. `executor.rs` has its endpoints: it takes the texts out of
//! documents and puts vectors into them. `cache.rs` is the option that stores vectors. `metrics.rs` measures the model's
//! calls. `tokens.rs` counts, shows and decodes tokens. `resources.rs` estimates how much memory
//! a process needs. The model itself runs in [`flow_models`].

#![warn(missing_docs)]

mod cache;
mod config;
mod executor;
mod metrics;
mod resources;
mod tokens;

pub use cache::CacheConfig;
pub use config::{InvalidEncoderConfig, SentenceEncoderConfig};
pub use executor::SentenceEncoder;
pub use flow_core::{AccessPaths, BadAccessPath};
pub use resources::{ResourceEstimate, estimate_resources};
