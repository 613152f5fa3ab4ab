//! Why an encoder cannot be loaded, or texts cannot be encoded.

use std::path::PathBuf;

use flow_cuda::GpuError;

use crate::device::DeviceUnavailable;
use crate::engine::{EngineConfigError, ForwardError, ModelError};
use crate::sentence_config::SentenceConfigError;
use crate::tokenizer::TokenizerError;

/// An encoder could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadEncoderError {
    /// The device is not available.
    #[error(transparent)]
    Device(#[from] DeviceUnavailable),
    /// The engine, device and precision cannot be combined.
    #[error(transparent)]
    Engine(#[from] EngineConfigError),
    /// The model's sentence-transformers files are invalid or unsupported.
    #[error(transparent)]
    SentenceConfig(#[from] SentenceConfigError),
    /// The model gives sparse vectors.
    #[error("the model gives sparse vectors; the executor `sparse-encoder` runs it")]
    Sparse,
    /// The model could not be loaded.
    #[error("cannot load the model in `{folder}`")]
    Model {
        /// The model's folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: ModelError,
    },
    /// The tokenizer could not be loaded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The requested length exceeds the model's.
    #[error("`max_length` is {requested}, but the model reads {max} tokens at most")]
    MaxLength {
        /// The requested length.
        requested: usize,
        /// The model's maximum.
        max: usize,
    },
    /// The requested dimensions exceed the model's.
    #[error("`dimensions` is {requested}, but the model's vectors have {max}")]
    Dimensions {
        /// The requested number.
        requested: usize,
        /// The model's number.
        max: usize,
    },
    /// The model has no prompt of this name.
    #[error("the model has no prompt `{requested}`; {available}")]
    Prompt {
        /// The requested name.
        requested: String,
        /// The model's prompts, as a sentence.
        available: String,
    },
    /// Two precisions could not be compared.
    #[error("cannot measure the fidelity of a precision")]
    Fidelity(#[from] EncodeError),
    /// The workers could not be started.
    #[error("cannot start the worker threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Texts could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// A text could not be tokenized.
    #[error(transparent)]
    Tokenize(#[from] TokenizerError),
    /// The engine failed.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// A pair has too many tokens, and the request forbids truncation.
    #[error("a text or a pair of texts has more than {max} tokens, the most that the model reads")]
    TooLong {
        /// The place of the text or pair in the call.
        text: usize,
        /// Maximum tokens of a text or pair.
        max: usize,
    },
    /// The texts of a call have too many tokens together.
    #[error("the texts of one call have {tokens} tokens; at most {max} are allowed")]
    TooManyTokens {
        /// Number of tokens.
        tokens: usize,
        /// Maximum number of tokens.
        max: usize,
    },
    /// The sparse vectors of a call have too many weights together.
    #[error("the vectors of one call have more than {max} weights")]
    TooManyWeights {
        /// Maximum number of weights.
        max: usize,
    },
    /// It was cancelled between two batches.
    #[error("the encoding was cancelled")]
    Cancelled,
}

impl LoadEncoderError {
    /// Whether a GPU has too little memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let Self::Model { source, .. } = self else {
            return false;
        };
        matches!(source, ModelError::Gpu(GpuError::OutOfMemory { .. }))
    }
}

impl EncodeError {
    /// Whether a device is lost to this process, so that only a new process can encode again.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Forward(error) if error.is_sticky())
    }
}
