//! Models by family: which there are, and what one gets from each.
//!
//! A family's file knows its layout and its arithmetic. What comes in (rows of token ids) and what
//! goes out (a state for each token) is the same for all and stands here; which texts go together is
//! the encoder's business, and what becomes of the states is `pooling.rs`'s.

mod bert;
mod weights;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use bert::{Bert, BertError};
pub use weights::{Weights, WeightsError};

use crate::source::{CONFIG_FILE, WEIGHTS_FILE};

/// The families that can be loaded, by their `model_type`.
pub const FAMILIES: &[&str] = &["bert"];

/// A loaded model of one of the families.
#[derive(Debug)]
pub enum Model {
    /// BERT, and all that has its layout: MiniLM, bge, e5, gte.
    Bert(Bert),
}

impl Model {
    /// Loads the model in `folder`.
    ///
    /// # Errors
    ///
    /// If it is of no known family, or its weights are not what `config.json` says.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(CONFIG_FILE);
        let text = fs::read(&path).map_err(|source| ModelError::ReadConfig {
            path: path.clone(),
            source,
        })?;
        let family: Family = parse(&path, &text)?;
        match family.model_type.as_deref() {
            Some("bert") => {
                let weights = Weights::open(&folder.join(WEIGHTS_FILE)).map_err(BertError::from)?;
                Ok(Self::Bert(Bert::load(&parse(&path, &text)?, weights)?))
            }
            other => Err(ModelError::Family {
                path,
                found: other.unwrap_or("").to_owned(),
            }),
        }
    }

    /// How many values a token's state has.
    #[must_use]
    pub fn width(&self) -> usize {
        match self {
            Self::Bert(bert) => bert.width(),
        }
    }

    /// How many tokens a text can have at most.
    #[must_use]
    pub fn positions(&self) -> usize {
        match self {
            Self::Bert(bert) => bert.positions(),
        }
    }

    /// The states of all tokens after the last layer.
    ///
    /// # Errors
    ///
    /// If they cannot be computed.
    pub fn forward(&self, batch: &TokenBatch) -> Result<States, ForwardError> {
        match self {
            Self::Bert(bert) => bert.forward(batch),
        }
    }
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// There is no configuration.
    #[error("cannot read `{path}`")]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The configuration is not one.
    #[error("`{path}` does not describe a model")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A model of another kind.
    #[error("not a BERT: `model_type` in `{path}` is `{found}`; what can be loaded: `{}`", FAMILIES.join("`, `"))]
    Family {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// A BERT that cannot be loaded.
    #[error(transparent)]
    Bert(#[from] BertError),
}

/// The one field of `config.json` that says how to read the others.
#[derive(Deserialize)]
struct Family {
    model_type: Option<String>,
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, ModelError> {
    let config = |source| ModelError::Config {
        path: path.to_owned(),
        source,
    };
    serde_json::from_slice(text).map_err(config)
}

/// Texts that go through the model together, as the ids of their tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenBatch {
    /// All ids, text after text, without padding.
    pub ids: Vec<u32>,
    /// How many tokens each text has.
    pub lengths: Vec<usize>,
    /// The id that stands for no token.
    pub padding: u32,
}

impl TokenBatch {
    /// Adds one text.
    pub fn push(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
        self.lengths.push(ids.len());
    }

    /// Length of the longest text.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Whether all texts have the same length.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.lengths.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// The ids as a rectangle, row after row.
    #[must_use]
    pub fn padded_ids(&self) -> Vec<u32> {
        if self.is_even() {
            return self.ids.clone();
        }
        let stride = self.longest();
        let mut padded = Vec::with_capacity(stride * self.lengths.len());
        let mut rest = &self.ids[..];
        for (row, &length) in self.lengths.iter().enumerate() {
            let (ids, others) = rest.split_at(length);
            padded.extend_from_slice(ids);
            padded.resize((row + 1) * stride, self.padding);
            rest = others;
        }
        padded
    }
}

/// One state for each token of a batch, as a rectangle: padding has states too, which mean nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct States {
    /// All values, text after text, token after token.
    pub values: Vec<f32>,
    /// How many tokens each text takes up, with its padding.
    pub stride: usize,
    /// How many values a state has.
    pub width: usize,
}

impl States {
    /// The states of text number `text`, which has `length` tokens.
    pub fn of(
        &self,
        text: usize,
        length: usize,
    ) -> impl DoubleEndedIterator<Item = &[f32]> + Clone {
        let start = text * self.stride * self.width;
        self.values[start..start + length * self.width].chunks_exact(self.width)
    }
}

/// The model could not compute.
#[derive(Debug, thiserror::Error)]
#[error("the model failed")]
pub struct ForwardError(#[from] candle_core::Error);
