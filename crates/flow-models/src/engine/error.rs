//! Errors of loading and running models.

use std::io;
use std::path::PathBuf;

use flow_cuda::GpuError;

use super::candle::{CandleError, CandleForwardError};
use crate::family::ArchitectureError;
use crate::tokenizer::TokenizerError;
use crate::weights::WeightsError;

/// A model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The configuration could not be read.
    #[error("cannot read `{path}`")]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The configuration is invalid.
    #[error("`{path}` does not describe a model")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is invalid.
        #[source]
        source: serde_json::Error,
    },
    /// The model's family is not supported.
    #[error("unsupported model family: `model_type` in `{path}` is `{found}`; supported are `{}`", .supported.join("`, `"))]
    Family {
        /// The file.
        path: PathBuf,
        /// Its `model_type`.
        found: String,
        /// The supported values.
        supported: &'static [&'static str],
    },
    /// The architecture is invalid or unsupported.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// The model has no classification head.
    #[error(
        "`{path}` has no classification head: a tensor is missing; the model is perhaps an encoder, not a reranker or a classifier"
    )]
    NoHead {
        /// The file with the weights.
        path: PathBuf,
        /// The missing tensor.
        #[source]
        source: WeightsError,
    },
    /// The model has no head for masked words.
    #[error(
        "`{path}` has no head for masked words: a tensor is missing; sparse vectors need a SPLADE model, such as \
         `naver/splade-cocondenser-ensembledistil`"
    )]
    NoMaskedLmHead {
        /// The file with the weights.
        path: PathBuf,
        /// The missing tensor.
        #[source]
        source: Box<WeightsError>,
    },
    /// The head has no label.
    #[error("the classification head in `{path}` has no labels")]
    NoLabel {
        /// The file with the weights.
        path: PathBuf,
    },
    /// The head has several labels, and not the one of a cross-encoder.
    #[error(
        "the model gives each pair of texts {0} scores instead of one: it is a classifier, not a reranker"
    )]
    NotOneLabel(usize),
    /// The names of labels are no map.
    #[error("`id2label` in `config.json` must be a map from the index of each label to its name")]
    LabelNames,
    /// The configuration names a label that the head does not have.
    #[error("`id2label` in `config.json` names a label `{id}`, but the model has {count} label{}, from 0", if *.count == 1 { "" } else { "s" })]
    UnknownLabel {
        /// The index of the label, as the configuration has it.
        id: String,
        /// The number of labels.
        count: usize,
    },
    /// Two labels have the same name.
    #[error("`id2label` in `config.json` gives two labels the name `{0}`")]
    RepeatedLabel(String),
    /// The weights could not be read, or do not match the configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The tokenizer, which the calibration for 8-bit integers needs, could not be loaded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// candle could not load the model.
    #[error(transparent)]
    Candle(#[from] CandleError),
    /// A GPU failed, has too little memory, or cannot compute the model.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// A model failed to compute.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// candle failed.
    #[error("the model failed")]
    Candle(#[from] CandleForwardError),
    /// A GPU failed.
    #[error("the model failed on the GPU")]
    Gpu(#[from] GpuError),
    /// The GPU engine returns pooled vectors only.
    #[error("vectors of tokens are computed on the CPU only; set `device: cpu`")]
    NoStates,
}

impl ForwardError {
    /// Whether a device is lost to this process, so that only a new process can compute again.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Gpu(error) if error.is_sticky())
    }
}
