//! Runs transformer models that turn texts into vectors, on the CPU and on NVIDIA GPUs.
//!
//! A model is composed of five parts, each in a module of its own:
//!
//! | part | modules | what it does |
//! |---|---|---|
//! | source | [`source`] | finds the model's files or fetches them |
//! | tokenizer | `tokenizer.rs` | turns texts into token ids |
//! | family | `family/` | knows the dimensions of BERT and its relatives, and the names of their tensors |
//! | engine | `engine/` | computes hidden states: our CPU kernels, CUDA, or candle |
//! | head | `pooling.rs` | turns hidden states into one vector per text |
//!
//! [`Encoder`] joins them. It cuts many texts into batches (`batch_plan.rs`) and runs them on a pool of workers
//! (`worker_pool.rs`). `device.rs` opens the requested device, and `sentence_config.rs` reads how the model's
//! authors pool and normalize.
//!
//! ```no_run
//! use std::num::NonZeroUsize;
//!
//! use flow_models::source::{self, DEFAULT_MODEL, Environment};
//! use flow_models::{Device, Encoder, EncoderOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::from_variables(|_| None);
//! let folder = source::pull(DEFAULT_MODEL, None, &environment, &mut ())?;
//! let device = Device::Cpu.open(NonZeroUsize::MIN)?;
//! let encoder = Encoder::load(&folder, &EncoderOptions::default(), device)?;
//! let vectors = encoder.encode(&["hello world"], None)?;
//! assert_eq!(vectors.width(), 384);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here prints or reads environment variables; the program passes what it has read.

#![warn(missing_docs)]

mod batch_plan;
mod device;
mod encoder;
pub mod engine;
mod family;
mod options;
mod parallelism;
mod pooling;
mod sentence_config;
pub mod source;
mod tokenizer;
mod weights;
mod worker_pool;

pub use device::{BadDevice, Device, NoDevice, Opened};
pub use encoder::{EncodeError, Encoder, EncoderError, Vectors};
pub use family::LayoutError;
pub use options::{EncoderOptions, EngineName, Precision};
pub use pooling::PoolingMode;
pub use sentence_config::RecipeError;
pub use tokenizer::TokenizeError;
pub use weights::{Weights, WeightsError};
