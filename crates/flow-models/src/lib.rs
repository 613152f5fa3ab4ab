//! Runs transformer models that turn texts into vectors, on the CPU and on NVIDIA GPUs, and models that classify texts or score pairs of
//! texts, on the CPU.
//!
//! A model is composed of five parts:
//!
//! | part | where | what it does |
//! |---|---|---|
//! | source | [`source`] | finds the model's files, or fetches them |
//! | tokenizer | [`Tokenizer`] | turns texts into token ids |
//! | family | `family/` | knows the dimensions of BERT and its relatives, and the names of their tensors |
//! | engine | [`engine`] | computes hidden states: flow's CPU kernels, CUDA, or candle |
//! | head | [`PoolingHead`] | turns hidden states into one vector per text |
//!
//! [`TextEncoder`] joins them: it cuts many texts into batches (`batch_plan.rs`), and runs the batches on a pool of workers
//! (`worker_pool.rs`, `parallelism.rs`). `device.rs` opens the requested device, and `sentence_config.rs` reads how the
//! model's authors pool and normalize. `fast.rs` chooses a precision by its [`Fidelity`]. [`CachedEncoder`] encodes no text twice: it remembers vectors in memory and on disk
//! (`vector_cache.rs`).
//!
//! ```no_run
//! use std::num::NonZeroUsize;
//!
//! use flow_models::source::{self, DEFAULT_MODEL, SourceEnvironment};
//! use flow_models::{DeviceSpec, EncoderOptions, TextEncoder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = SourceEnvironment::from_variables(|_| None);
//! let folder = source::pull(DEFAULT_MODEL, None, &environment, &mut ())?;
//! let devices = DeviceSpec::Cpu.open(NonZeroUsize::MIN)?;
//! let encoder = TextEncoder::load(&folder, &EncoderOptions::default(), devices)?;
//! let vectors = encoder.encode(&["hello world"], None)?;
//! assert_eq!(vectors.width(), 384);
//! # Ok(())
//! # }
//! ```
//!
//! [`CrossEncoder`] scores pairs of texts and [`TextClassifier`] classifies texts, with the same parts and another head
//! (`engine/classification_head.rs`), which `sequence_classifier.rs` joins. An executor with a head of
//! its own uses the parts directly: [`source::pull`], [`Tokenizer::load`] and [`engine::ModelEngine::load`].
//!
//! Nothing here prints or reads environment variables; the program passes what it has read.

#![warn(missing_docs)]

mod batch_plan;
mod cached_encoder;
mod cross_encoder;
mod derived_file;
mod device;
mod encode_times;
mod encoder;
pub mod engine;
mod family;
mod fast;
mod fidelity;
mod matryoshka;
mod options;
mod pair_tokenizer;
mod parallelism;
mod pooling;
mod sentence_config;
mod sequence_classifier;
pub mod source;
mod sparse_encoder;
mod spin_barrier;
mod text_classifier;
mod text_workers;
mod tokenizer;
mod tokens;
mod truncation;
mod vector_cache;
mod vectors;
mod weights;
mod worker_pool;

pub use cached_encoder::{CachedEncoder, EncodeWork, Encoded};
pub use cross_encoder::{CrossEncoder, PairScores};
pub use device::{DeviceSpec, DeviceUnavailable, OpenDevices, UnknownDevice};
pub use encode_times::EncodeTimes;
pub use encoder::{
    EncodeError, EncodeRequest, IsCancelled, LoadEncoderError, TextEncoder, TokenVectors,
};
pub use family::ArchitectureError;
pub use fidelity::Fidelity;
pub use matryoshka::Matryoshka;
pub use options::{EncoderOptions, EngineKind, Precision};
pub use pooling::{PoolingHead, PoolingMode};
pub use sentence_config::SentenceConfigError;
pub use sequence_classifier::{ScoreRequest, SequenceClassifier};
pub use sparse_encoder::{SparseEncoder, SparseRequest, SparseVector, SparseVectors};
pub use text_classifier::{ClassifierInput, LabelOutputs, TextClassifier};
pub use tokenizer::{Prompt, Token, Tokenizer, TokenizerError, TokenizerOptions};
pub use tokens::{HiddenStates, PairTokens, TokenBatch};
pub use truncation::TruncationDirection;
pub use vector_cache::{CacheCounts, CacheOptions, OpenCacheError, VectorCache};
pub use vectors::Vectors;
pub use weights::{WeightsError, WeightsFile};
