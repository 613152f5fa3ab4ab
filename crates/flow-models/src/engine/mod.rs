//! Models by family: which there are, and what one gets from each.
//!
//! `layout.rs` knows what each family's tensors are called and how large they are, and `tensors.rs` reads them;
//! `engine/` computes them all on our own kernels, `gpu.rs` on those for GPUs, and `bert.rs` computes BERT as candle
//! does, which is what ours is compared with. What comes in (rows of token ids) and what goes out (a vector for each
//! text) is the same for all and stands here; which texts go together is the encoder's business, and what becomes of
//! tokens' states is `pooling.rs`'s, except on a GPU, which pools by itself so that only vectors leave it.

mod candle;
mod cpu;
mod gpu;

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow_cuda::{Gpu, GpuError};
use flow_kernels::{Kernels, Rows};
use serde::Deserialize;

pub use candle::{Bert, BertError};
pub use cpu::Engine;
pub use gpu::Gpus;

use crate::family::{Config, Family, Layout, LayoutError, Tensors};
use crate::pooling::Rule;
use crate::source::{CONFIG_FILE, WEIGHTS_FILE};
use crate::weights::{Weights, WeightsError};
use crate::worker_pool::Lanes;

/// The families that can be loaded, by their `model_type`.
pub const FAMILIES: &[&str] = &["bert", "distilbert", "roberta", "xlm-roberta", "mpnet"];

/// The families that candle computes too.
pub const CANDLE_FAMILIES: &[&str] = &["bert"];

/// A loaded model of one of the families.
#[derive(Debug)]
pub enum Model {
    /// On our own kernels.
    Flow(Box<Engine>),
    /// On GPUs.
    Gpu(Box<Gpus>),
    /// BERT as candle has it: the plain way, and the reference.
    Candle(Box<Bert>),
}

/// As much of a model's dimensions as says how much work it is.
#[derive(Debug, Clone, Copy)]
struct Size {
    hidden: usize,
    inner: usize,
    layers: usize,
}

impl Size {
    fn of(layout: &Layout) -> Self {
        Self {
            hidden: layout.hidden,
            inner: layout.inner,
            layers: layout.layers,
        }
    }

    /// Two for each product of two numbers: linear layers, then attention.
    fn flop(self, tokens: usize) -> f64 {
        let linear = 4 * self.hidden * self.hidden + 2 * self.hidden * self.inner;
        let attention = 2 * self.hidden * tokens;
        2.0 * (self.layers * tokens * (linear + attention)) as f64
    }
}

/// What computes a model.
#[derive(Debug, Clone)]
pub enum Compute {
    /// Our own kernels.
    Flow(Kernels),
    /// At least one GPU.
    Gpu(Vec<Arc<dyn Gpu>>, flow_cuda::Format),
    /// candle, on so many threads.
    Candle(NonZeroUsize),
}

impl Model {
    /// Loads the model in `folder`.
    ///
    /// # Errors
    ///
    /// If it is of no known family, or its weights are not what `config.json` says.
    pub fn load(folder: &Path, compute: &Compute) -> Result<Self, ModelError> {
        let path = folder.join(CONFIG_FILE);
        let text = fs::read(&path).map_err(|source| ModelError::ReadConfig {
            path: path.clone(),
            source,
        })?;
        let model_type = parse::<ModelType>(&path, &text)?.model_type;
        let model_type = model_type.as_deref().unwrap_or("");
        let known = match compute {
            Compute::Flow(_) | Compute::Gpu(..) => FAMILIES,
            Compute::Candle(_) => CANDLE_FAMILIES,
        };
        let family = Family::of(model_type).filter(|_| known.contains(&model_type));
        let family = family.ok_or_else(|| ModelError::Family {
            path: path.clone(),
            found: model_type.to_owned(),
            known,
        })?;
        let layout = Layout::of(family, &parse::<Config>(&path, &text)?)?;
        let weights = Weights::open(&folder.join(WEIGHTS_FILE))?;
        layout.check(&weights)?;
        Ok(match compute {
            Compute::Flow(kernels) => {
                let tensors = Tensors::of(&layout, &weights);
                Self::Flow(Box::new(Engine::load(&tensors, *kernels)?))
            }
            Compute::Gpu(gpus, format) => {
                let tensors = Tensors::of(&layout, &weights);
                Self::Gpu(Box::new(Gpus::load(&tensors, gpus, *format)?))
            }
            Compute::Candle(threads) => {
                let bert = Bert::load(&parse(&path, &text)?, weights, *threads)?;
                Self::Candle(Box::new(bert))
            }
        })
    }

    /// How many values a token's state has.
    #[must_use]
    pub fn width(&self) -> usize {
        match self {
            Self::Flow(engine) => engine.width(),
            Self::Gpu(gpus) => gpus.size().hidden,
            Self::Candle(bert) => bert.width(),
        }
    }

    /// How many tokens a text can have at most.
    #[must_use]
    pub fn positions(&self) -> usize {
        match self {
            Self::Flow(engine) => engine.positions(),
            Self::Gpu(gpus) => gpus.positions(),
            Self::Candle(bert) => bert.positions(),
        }
    }

    /// Floating-point operations of the matrix products for a text of so many tokens.
    #[must_use]
    pub fn flop(&self, tokens: usize) -> f64 {
        match self {
            Self::Flow(engine) => engine.size().flop(tokens),
            Self::Gpu(gpus) => gpus.size().flop(tokens),
            Self::Candle(bert) => bert.size().flop(tokens),
        }
    }

    /// GPUs, if they compute it.
    #[must_use]
    pub fn gpus(&self) -> Option<&Gpus> {
        match self {
            Self::Gpu(gpus) => Some(gpus),
            Self::Flow(_) | Self::Candle(_) => None,
        }
    }

    /// What computes it: an engine, its back end, and the numbers.
    #[must_use]
    pub fn computing(&self) -> Computing {
        let (engine, back_end, precision) = match self {
            Self::Flow(engine) => {
                let kernels = engine.kernels();
                let back_end = kernels.instruction_set().to_string();
                ("flow", back_end, kernels.precision().to_string())
            }
            Self::Gpu(gpus) => {
                let back_end = format!("cuda {}", gpus.capability());
                ("flow", back_end, gpus.format().to_string())
            }
            Self::Candle(_) => ("candle", "candle".to_owned(), "f32".to_owned()),
        };
        Computing {
            engine,
            back_end,
            precision,
        }
    }

    /// How many threads candle computes with, if it does.
    #[must_use]
    pub fn candle_threads(&self) -> Option<usize> {
        match self {
            Self::Candle(bert) => Some(bert.threads()),
            Self::Flow(_) | Self::Gpu(_) => None,
        }
    }

    /// Bytes of the weights, if our own kernels keep them.
    #[must_use]
    pub fn weight_bytes(&self) -> Option<usize> {
        match self {
            Self::Flow(engine) => Some(engine.weight_bytes()),
            Self::Gpu(gpus) => Some(gpus.weight_bytes()),
            Self::Candle(_) => None,
        }
    }

    /// The vectors of a batch's texts, one after the other: computed on this thread, or waited for.
    ///
    /// # Errors
    ///
    /// If they cannot be computed.
    pub(crate) fn encode(&self, batch: &TokenBatch, rule: &Rule) -> Result<Vec<f32>, ForwardError> {
        match self {
            Self::Flow(engine) => Ok(rule.vectors(batch, &engine.forward(batch))),
            Self::Gpu(gpus) => Ok(gpus.encode(batch, rule)?),
            Self::Candle(bert) => Ok(rule.vectors(batch, &bert.forward(batch)?)),
        }
    }

    /// The vector of one text that has nothing beside it: all lanes are free for it. `read` gives its tokens.
    ///
    /// # Errors
    ///
    /// If they cannot be computed.
    pub(crate) fn encode_on_all<E: From<ForwardError> + Send + Sync>(
        &self,
        read: &(dyn Fn() -> Result<Vec<u32>, E> + Sync),
        rule: &Rule,
        lanes: &Lanes,
    ) -> Result<Vec<f32>, E> {
        let batch = |ids: Vec<u32>| TokenBatch {
            lengths: vec![ids.len()],
            ids,
            ..TokenBatch::default()
        };
        match self {
            Self::Flow(engine) if lanes.count() > 1 => {
                let (ids, states) = engine.forward_alone(read, lanes)?;
                Ok(rule.vectors(&batch(ids), &states))
            }
            _ => Ok(self.encode(&batch(read()?), rule)?),
        }
    }
}

/// What computes a model, for whoever wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computing {
    /// `flow` or `candle`.
    pub engine: &'static str,
    /// Which instructions, or which GPU's.
    pub back_end: String,
    /// Which numbers.
    pub precision: String,
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
    #[error("not a BERT: `model_type` in `{path}` is `{found}`; what can be loaded: `{}`", .known.join("`, `"))]
    Family {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What there is instead.
        known: &'static [&'static str],
    },
    /// Its dimensions make no sense, or ask for what is not built.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Its weights are not what they should be.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// candle refuses them.
    #[error(transparent)]
    Candle(#[from] BertError),
    /// A GPU fails, has no room, or cannot compute it.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// The one field of `config.json` that says how to read the others.
#[derive(Deserialize)]
struct ModelType {
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

    /// Which ids are whose.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let range = |length: &usize| {
            let start = end;
            end += length;
            start..end
        };
        self.lengths.iter().map(range).collect()
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

/// One state for each token of a batch. Between texts may lie states that mean nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct States {
    /// All values, token after token.
    pub values: Vec<f32>,
    /// The number of each text's first token.
    pub starts: Vec<usize>,
    /// How many values a state has.
    pub width: usize,
}

impl States {
    /// Puts states together that lie further apart.
    pub(crate) fn gather(rows: Rows<'_>, width: usize, texts: &[Range<usize>]) -> Self {
        let mut values = Vec::with_capacity(rows.count() * width);
        (0..rows.count()).for_each(|row| values.extend_from_slice(rows.row(row)));
        let starts = texts.iter().map(|text| text.start).collect();
        Self {
            values,
            starts,
            width,
        }
    }

    /// The states of text number `text`, which has `length` tokens.
    pub fn of(
        &self,
        text: usize,
        length: usize,
    ) -> impl DoubleEndedIterator<Item = &[f32]> + Clone {
        let start = self.starts[text] * self.width;
        self.values[start..start + length * self.width].chunks_exact(self.width)
    }
}

/// The model could not compute.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// candle could not.
    #[error("the model failed")]
    Candle(#[from] candle_core::Error),
    /// A GPU could not.
    #[error("the model failed on the GPU")]
    Gpu(#[from] GpuError),
}

impl ForwardError {
    /// Whether a device is lost, so that only a new process can compute again.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Gpu(error) if error.is_sticky())
    }
}
