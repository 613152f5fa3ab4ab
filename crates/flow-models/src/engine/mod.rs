//! Engines: the software that computes a model.
//!
//! [`ModelEngine`] is the choice between three of them: `cpu/` computes every family with `flow-kernels`, `gpu.rs` with
//! `flow-cuda`, and `candle.rs` computes BERT with candle, as a reference. All of them take a [`TokenBatch`] and return one
//! vector per text. The engines on the CPU return hidden states, which a [`PoolingHead`] turns into vectors; GPUs pool by
//! themselves, so that only vectors are copied back. `config.rs` chooses an engine.

#[cfg_attr(not(feature = "candle"), path = "candle_absent.rs")]
mod candle;
mod classification_head;
mod config;
mod cpu;
mod error;
mod gpu;
mod info;
mod labels;
mod masked_lm_head;
mod size;

use std::fs;
use std::path::{Path, PathBuf};

use flow_kernels::Kernels;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use candle::{CandleEngine, CandleError, CandleForwardError};
pub use config::{EngineConfig, EngineConfigError};
pub use cpu::CpuEngine;
pub use error::{ForwardError, ModelError};
pub use flow_cuda::NVML;
pub use gpu::{GpuEngine, GpuId};
pub use info::EngineInfo;

pub(crate) use classification_head::ClassificationHead;
pub(crate) use config::{cpu_kernels, exact_cpu_kernels};
pub(crate) use labels::{LabelConfig, ScoreFunction};
pub(crate) use masked_lm_head::MaskedLmHead;

use crate::family::{Architecture, ModelFamily, ModelTensors};
use crate::pooling::PoolingHead;
use crate::source::{CONFIG_FILE, WEIGHTS_FILE};
use crate::tokens::{HiddenStates, TokenBatch};
use crate::weights::WeightsFile;
use crate::worker_pool::WorkerPool;

/// The supported families, by their `model_type` in `config.json`.
pub const FAMILIES: &[&str] = &["bert", "distilbert", "roberta", "xlm-roberta", "mpnet"];

/// The families that [`CandleEngine`] supports.
pub const CANDLE_FAMILIES: &[&str] = &["bert"];

/// A loaded model and the engine that computes it.
#[derive(Debug)]
pub enum ModelEngine {
    /// flow's own kernels on the CPU.
    Cpu(Box<CpuEngine>),
    /// flow's own kernels on GPUs.
    Gpu(Box<GpuEngine>),
    /// candle on the CPU.
    Candle(Box<CandleEngine>),
}

impl ModelEngine {
    /// Loads the model in `folder`.
    ///
    /// # Errors
    ///
    /// If its family is not supported, or its weights do not match its `config.json`.
    pub fn load(folder: &Path, config: &EngineConfig) -> Result<Self, ModelError> {
        Self::from_files(ModelFiles::open(folder, families(config))?, folder, config)
    }

    fn from_files(
        files: ModelFiles,
        folder: &Path,
        config: &EngineConfig,
    ) -> Result<Self, ModelError> {
        Ok(match config {
            EngineConfig::Cpu(kernels, cache) => {
                let folders = (folder, cache.as_deref());
                let engine = CpuEngine::load(&files.tensors(), folders, *kernels)?;
                Self::Cpu(Box::new(engine))
            }
            EngineConfig::Gpu(gpus, precision) => {
                let engine = GpuEngine::load(&files.tensors(), gpus, *precision)?;
                Self::Gpu(Box::new(engine))
            }
            EngineConfig::Candle(threads) => {
                let config = files.parse_config()?;
                let engine = CandleEngine::load(&config, files.weights, *threads)?;
                Self::Candle(Box::new(engine))
            }
        })
    }

    /// Number of values of a hidden state.
    #[must_use]
    pub fn hidden_size(&self) -> usize {
        match self {
            Self::Cpu(engine) => engine.size().hidden,
            Self::Gpu(engine) => engine.size().hidden,
            Self::Candle(engine) => engine.size().hidden,
        }
    }

    /// Maximum tokens of a text.
    #[must_use]
    pub fn max_tokens(&self) -> usize {
        match self {
            Self::Cpu(engine) => engine.max_tokens(),
            Self::Gpu(engine) => engine.max_tokens(),
            Self::Candle(engine) => engine.max_tokens(),
        }
    }

    /// Floating-point operations of all matrix products for a text of `tokens` tokens.
    #[must_use]
    pub fn flop(&self, tokens: usize) -> f64 {
        match self {
            Self::Cpu(engine) => engine.size().flop(tokens),
            Self::Gpu(engine) => engine.size().flop(tokens),
            Self::Candle(engine) => engine.size().flop(tokens),
        }
    }

    /// The GPU engine, if GPUs compute.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuEngine> {
        match self {
            Self::Gpu(engine) => Some(engine),
            Self::Cpu(_) | Self::Candle(_) => None,
        }
    }

    /// Names of the engine, its back end and its precision.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        match self {
            Self::Cpu(engine) => engine.info(),
            Self::Gpu(engine) => EngineInfo {
                engine: "flow",
                back_end: format!("cuda {}", engine.capability()),
                precision: engine.precision().to_string(),
            },
            Self::Candle(_) => EngineInfo {
                engine: "candle",
                back_end: "candle".to_owned(),
                precision: "f32".to_owned(),
            },
        }
    }

    /// Number of threads of the candle engine, if candle computes.
    #[must_use]
    pub fn candle_threads(&self) -> Option<usize> {
        match self {
            Self::Candle(engine) => Some(engine.threads()),
            Self::Cpu(_) | Self::Gpu(_) => None,
        }
    }

    /// Bytes of the weights in memory. `None` if candle stores them.
    #[must_use]
    pub fn weight_bytes(&self) -> Option<usize> {
        match self {
            Self::Cpu(engine) => Some(engine.weight_bytes()),
            Self::Gpu(engine) => Some(engine.weight_bytes()),
            Self::Candle(_) => None,
        }
    }

    /// The vectors of a batch's texts, as a row-major matrix of `texts × head.width`. On the CPU, flow's kernels compute on
    /// the caller's thread; on a GPU, the caller's thread sleeps.
    ///
    /// # Errors
    ///
    /// If the engine fails.
    pub fn encode(&self, batch: &TokenBatch, head: &PoolingHead) -> Result<Vec<f32>, ForwardError> {
        match self {
            Self::Cpu(engine) => Ok(head.vectors(batch, &engine.forward(batch))),
            Self::Gpu(engine) => Ok(engine.encode(batch, head)?),
            Self::Candle(engine) => Ok(head.vectors(batch, &engine.forward(batch)?)),
        }
    }

    /// The hidden states of a batch.
    ///
    /// # Errors
    ///
    /// If the engine fails, or is a GPU.
    pub(crate) fn states(&self, batch: &TokenBatch) -> Result<HiddenStates, ForwardError> {
        match self {
            Self::Cpu(engine) => Ok(engine.forward(batch)),
            Self::Gpu(_) => Err(ForwardError::NoStates),
            Self::Candle(engine) => Ok(engine.forward(batch)?),
        }
    }

    /// The vector of a single text and the number of its tokens, computed on all workers where the engine can.
    /// `tokenize` returns its token ids.
    ///
    /// # Errors
    ///
    /// If `tokenize` or the engine fails.
    pub(crate) fn encode_one<E: From<ForwardError> + Send + Sync>(
        &self,
        tokenize: &(dyn Fn() -> Result<Vec<u32>, E> + Sync),
        head: &PoolingHead,
        pool: &WorkerPool,
    ) -> Result<(Vec<f32>, usize), E> {
        let batch = |ids: Vec<u32>| TokenBatch {
            lengths: vec![ids.len()],
            ids,
            ..TokenBatch::default()
        };
        match self {
            Self::Cpu(engine) if pool.size() > 1 => {
                let (ids, states) = engine.forward_one(tokenize, pool)?;
                let tokens = ids.len();
                Ok((head.vectors(&batch(ids), &states), tokens))
            }
            _ => {
                let ids = tokenize()?;
                let tokens = ids.len();
                Ok((self.encode(&batch(ids), head)?, tokens))
            }
        }
    }
}

/// The families that an engine supports.
fn families(config: &EngineConfig) -> &'static [&'static str] {
    match config {
        EngineConfig::Cpu(..) | EngineConfig::Gpu(..) => FAMILIES,
        EngineConfig::Candle(_) => CANDLE_FAMILIES,
    }
}

/// The files of a model, whose weights have been checked against its configuration.
struct ModelFiles {
    config_path: PathBuf,
    config: Vec<u8>,
    architecture: Architecture,
    weights: WeightsFile,
}

impl ModelFiles {
    /// Opens the model in `folder`, whose family must be one of `supported`.
    fn open(folder: &Path, supported: &'static [&'static str]) -> Result<Self, ModelError> {
        let config_path = folder.join(CONFIG_FILE);
        let config = fs::read(&config_path).map_err(|source| ModelError::ReadConfig {
            path: config_path.clone(),
            source,
        })?;
        let model_type = parse::<ModelType>(&config_path, &config)?.model_type;
        let model_type = model_type.as_deref().unwrap_or("");
        let family =
            ModelFamily::from_model_type(model_type).filter(|_| supported.contains(&model_type));
        let family = family.ok_or_else(|| ModelError::Family {
            path: config_path.clone(),
            found: model_type.to_owned(),
            supported,
        })?;
        let architecture = Architecture::new(family, &parse(&config_path, &config)?)?;
        let weights = WeightsFile::open(&folder.join(WEIGHTS_FILE))?;
        architecture.check(&weights)?;
        Ok(Self {
            config_path,
            config,
            architecture,
            weights,
        })
    }

    fn tensors(&self) -> ModelTensors<'_> {
        ModelTensors::new(&self.architecture, &self.weights)
    }

    fn parse_config<T: DeserializeOwned>(&self) -> Result<T, ModelError> {
        parse(&self.config_path, &self.config)
    }
}

/// Loads the model in `folder` with its classification head, which `kernels` compute, and what its configuration says of the labels.
///
/// # Errors
///
/// If its family is not supported, its weights do not match its `config.json`, or it has no classification head.
pub(crate) fn load_classifier(
    folder: &Path,
    config: &EngineConfig,
    kernels: Kernels,
) -> Result<(ModelEngine, ClassificationHead, LabelConfig), ModelError> {
    let files = ModelFiles::open(folder, families(config))?;
    let labels = files.parse_config()?;
    let head = ClassificationHead::load(&files.architecture, &files.weights, kernels)?;
    Ok((
        ModelEngine::from_files(files, folder, config)?,
        head,
        labels,
    ))
}

/// Loads the model in `folder` with its head for masked words. `cache` is a folder for what is computed from a model once.
///
/// # Errors
///
/// If its family is not supported, its weights do not match its `config.json`, or it has no such head.
pub(crate) fn load_masked_lm(
    folder: &Path,
    kernels: Kernels,
    cache: Option<&Path>,
) -> Result<(CpuEngine, MaskedLmHead), ModelError> {
    let files = ModelFiles::open(folder, FAMILIES)?;
    let head = MaskedLmHead::load(&files.architecture, &files.weights, kernels)?;
    let engine = CpuEngine::load(&files.tensors(), (folder, cache), kernels)?;
    Ok((engine, head))
}

/// The field of `config.json` that determines how to read the others.
#[derive(Deserialize)]
struct ModelType {
    model_type: Option<String>,
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, ModelError> {
    let invalid = |source| ModelError::Config {
        path: path.to_owned(),
        source,
    };
    serde_json::from_slice(text).map_err(invalid)
}
