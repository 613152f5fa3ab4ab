//! Encodes sentences with all-MiniLM-L6-v2 and its relatives.
//!
//! A call walks through these files in this order:
//!
//! `executor.rs` (documents → texts, vectors → documents) → `encoder.rs` (windows, chunks, order) →
//! `tokenize.rs` → `batch.rs` (who goes through the model together; pure) → `lanes.rs` (threads) →
//! `model/*` (the arithmetic, by family; on the processor or on GPUs) → `pooling.rs`.
//!
//! Before the first call: `config.rs` (what the user says), `device.rs` (where it runs), `compute.rs` (with what),
//! `source/*` (where the model comes from) and `recipe.rs` (what the model itself says). `needs.rs` tells how much memory
//! a process needs, before there is one.

#![warn(missing_docs)]

mod batch;
mod compute;
mod config;
mod device;
mod encoder;
mod executor;
mod lanes;
pub mod model;
mod needs;
mod pooling;
mod recipe;
pub mod source;
mod tokenize;

pub use config::{BadOption, EngineName, Precision, With};
pub use device::{BadDevice, Device, NoDevice, Opened};
pub use encoder::{EncodeError, Encoder, EncoderError, Vectors};
pub use executor::SentenceEncoder;
pub use flow_core::{AccessPaths, BadAccessPath};
pub use needs::{Needs, needs};
pub use pooling::PoolingMode;
pub use recipe::RecipeError;
pub use tokenize::TokenizeError;
