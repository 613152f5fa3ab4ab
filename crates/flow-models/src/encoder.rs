//! From texts to vectors: tokens, chunks, the model, pooling, and everything back in its place.
//!
//! Many texts are taken in windows. While a window is encoded, the next is tokenized, by the same threads:
//! small pieces of that work are what a thread does that has no other, so the model never waits for tokens and
//! no thread is too many. A few texts, which is what a request brings, go through in one window.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flow_core::Chain;
use flow_cuda::GpuError;
use flow_kernels::InstructionSetUnavailable;

use crate::batch_plan::{Limits, plan};
use crate::device::{Device, NoDevice, Opened};
use crate::engine::{Computing, ForwardError, Gpus, Model, ModelError, TokenBatch};
use crate::options::{EncoderOptions, Precision};
use crate::parallelism::{self, Sharing};
use crate::pooling::{Pooling, Rule};
use crate::sentence_config::{Recipe, RecipeError};
use crate::source::TOKENIZER_FILE;
use crate::tokenizer::{Reading, TokenizeError, Tokenizer};
use crate::worker_pool::Lanes;

/// Texts that are tokenized at once: a fraction of a millisecond.
const PIECE_TEXTS: usize = 16;

/// A text of so many bytes is tokenized in about the time that lanes take to wake up, some tens of microseconds; they
/// would wait for a longer one.
const SHORT_TEXT_BYTES: usize = 512;

/// A loaded model with all that is needed to use it.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    model: Model,
    lanes: Lanes,
    /// How many lanes take chunks; the others tokenize.
    takers: usize,
    rule: Rule,
    limits: Limits,
    window_texts: usize,
    max_length: usize,
}

/// Vectors of one length, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    values: Vec<f32>,
    width: usize,
}

/// What a lane can do.
enum Work<'a, T> {
    /// These of a window's texts, longest first.
    Encode(Range<usize>),
    /// A piece of the next window, and its number.
    Tokenize(usize, &'a [T]),
}

/// What came of it.
enum Done {
    Vectors(Range<usize>, Vec<f32>),
    Ids(usize, Vec<Vec<u32>>),
}

/// Why a folder did not become an encoder.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// The device is not there.
    #[error(transparent)]
    Device(#[from] NoDevice),
    /// The model's files ask for what we cannot do.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The model cannot be loaded.
    #[error("cannot load the model in `{folder}`")]
    Model {
        /// Where it lies.
        folder: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ModelError,
    },
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizeError),
    /// Longer texts were asked for than the model can read.
    #[error("`max_length` is {found}, but the model reads {limit} tokens at most")]
    Length {
        /// What was asked for.
        found: usize,
        /// What the model can do.
        limit: usize,
    },
    /// Longer vectors were asked for than the model makes.
    #[error("`dimensions` is {found}, but the model's vectors have {limit}")]
    Dimensions {
        /// What was asked for.
        found: usize,
        /// What the model makes.
        limit: usize,
    },
    /// The model has no prompt of this name.
    #[error("the model has no prompt `{found}`; {known}")]
    Prompt {
        /// What was asked for.
        found: String,
        /// What there is, in words.
        known: String,
    },
    /// The machine lacks the instructions that were asked for.
    #[error(transparent)]
    BackEnd(#[from] InstructionSetUnavailable),
    /// candle computes in 32-bit floats only.
    #[error("`engine` is `candle`, which computes with `precision: f32` only")]
    CandlePrecision,
    /// candle computes on the processor only.
    #[error("`engine` is `candle`, which computes on the processor only; say `device: cpu`")]
    CandleDevice,
    /// Numbers that only GPUs know.
    #[error(
        "`precision` is `{0}`, which only GPUs compute with; on the processor there are `f32`, `bf16` and `auto`"
    )]
    GpuPrecision(Precision),
    /// Threads cannot be started.
    #[error("cannot start the threads that compute")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Why texts did not become vectors.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// A text could not be tokenized.
    #[error(transparent)]
    Tokenize(#[from] TokenizeError),
    /// The model could not compute.
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

impl EncoderError {
    /// Whether a GPU has too little memory.
    fn is_no_room(&self) -> bool {
        let Self::Model { source, .. } = self else {
            return false;
        };
        matches!(source, ModelError::Gpu(GpuError::OutOfMemory { .. }))
    }
}

impl EncodeError {
    /// Whether a device is lost, so that only a new process can encode again.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Forward(error) if error.is_sticky())
    }
}

impl Vectors {
    /// How many values each has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The vectors, in the order of the texts.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }
}

impl Encoder {
    /// Loads the model in `folder` with these options onto `device`. Where that was left to us, and is a GPU without
    /// room for the model, the processor computes.
    ///
    /// # Errors
    ///
    /// If something in the folder is not what it should be, or does not go with the options.
    pub fn load(folder: &Path, with: &EncoderOptions, device: Opened) -> Result<Self, EncoderError> {
        let cores = device.cores;
        match Self::load_onto(folder, with, device) {
            Err(error) if with.device == Device::Auto && error.is_no_room() => {
                tracing::info!(device = "cpu", reason = %Chain(&error), "device chosen");
                Self::load_onto(folder, with, Opened::cpu(cores, None))
            }
            loaded => loaded,
        }
    }

    fn load_onto(folder: &Path, with: &EncoderOptions, device: Opened) -> Result<Self, EncoderError> {
        let recipe = Recipe::read(folder)?;
        let cores = device.cores;
        let compute = parallelism::choose(with, device)?;
        let model = Model::load(folder, &compute).map_err(|source| EncoderError::Model {
            folder: folder.to_owned(),
            source,
        })?;
        let max_length = max_length(with, &recipe, model.positions())?;
        let reading = Reading {
            max_length,
            prompt: prompt(with, &recipe)?,
            lower_case: recipe.lower_case,
        };
        let tokenizer = Tokenizer::load(&folder.join(TOKENIZER_FILE), reading)?;
        let pooling = pooling(with, &recipe);
        let (skipped, modes) = (tokenizer.prompt_length(), pooling.modes);
        let sharing = Sharing::of(with, &model, cores);
        Ok(Self {
            tokenizer,
            lanes: Lanes::start(sharing.lanes)?,
            takers: sharing.takers,
            limits: sharing.limits,
            window_texts: sharing.window_texts,
            rule: Rule {
                width: width(with, model.width() * modes.len())?,
                skipped: if pooling.includes_prompt { 0 } else { skipped },
                modes,
                normalize: with.normalize.unwrap_or(recipe.normalize),
            },
            model,
            max_length,
        })
    }

    /// How many values a vector has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.rule.width
    }

    /// What computes.
    #[must_use]
    pub fn computing(&self) -> Computing {
        self.model.computing()
    }

    /// GPUs, if they compute.
    #[must_use]
    pub fn gpus(&self) -> Option<&Gpus> {
        self.model.gpus()
    }

    /// How many tokens go through the model together at most.
    #[must_use]
    pub fn batch_tokens(&self) -> NonZeroUsize {
        self.limits.tokens_max
    }

    /// Bytes of the model's weights, if our own kernels keep them.
    #[must_use]
    pub fn weight_bytes(&self) -> Option<usize> {
        self.model.weight_bytes()
    }

    /// How many threads compute.
    #[must_use]
    pub fn threads(&self) -> usize {
        let candle_threads = self.model.candle_threads();
        candle_threads.unwrap_or_else(|| self.lanes.count())
    }

    /// How many tokens of a text are read at most.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// How many tokens of each text the model sees.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn count_tokens<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
    ) -> Result<Vec<usize>, EncodeError> {
        let ids = self.tokenize(texts, self.limits)?;
        Ok(ids.iter().map(Vec::len).collect())
    }

    /// Floating-point operations that a text of so many tokens takes: those of the matrix products.
    #[must_use]
    pub fn flop(&self, tokens: usize) -> f64 {
        self.model.flop(tokens)
    }

    /// One vector for each text, in order. `batch_size` says how many texts go through the model
    /// together if it is not to be as configured; it does not change the vectors.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the model fails.
    pub fn encode<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        batch_size: Option<NonZeroUsize>,
    ) -> Result<Vectors, EncodeError> {
        let limits = Limits {
            texts_max: batch_size.unwrap_or(self.limits.texts_max),
            ..self.limits
        };
        let width = self.rule.width;
        if let [text] = texts {
            let values = self.encode_one(text.as_ref())?;
            return Ok(Vectors { values, width });
        }
        let mut values = vec![0.0; texts.len() * width];
        let mut windows = texts.chunks(self.window_texts);
        let mut ids = self.tokenize(windows.next().unwrap_or_default(), limits)?;
        for place in values.chunks_mut(self.window_texts * width) {
            let next = windows.next().unwrap_or_default();
            ids = self.encode_window(&ids, next, limits, place)?;
        }
        Ok(Vectors { values, width })
    }

    /// One text, on all lanes where the model can.
    fn encode_one(&self, text: &str) -> Result<Vec<f32>, EncodeError> {
        let is_long = text.len() > SHORT_TEXT_BYTES;
        let early = is_long.then(|| self.tokenizer.ids(text)).transpose()?;
        let read = || -> Result<_, EncodeError> {
            match &early {
                Some(ids) => Ok(ids.clone()),
                None => Ok(self.tokenizer.ids(text)?),
            }
        };
        self.model.encode_on_all(&read, &self.rule, &self.lanes)
    }

    /// The ids of each text.
    fn tokenize<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        limits: Limits,
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        if texts.len() <= PIECE_TEXTS {
            // Waking the lanes would take longer.
            return Ok(self.tokenizer.encode(texts)?);
        }
        self.encode_window(&[], texts, limits, &mut [])
    }

    /// Encodes a window, and tokenizes the next, whose ids it returns.
    fn encode_window<T: AsRef<str> + Sync>(
        &self,
        texts: &[Vec<u32>],
        next: &[T],
        limits: Limits,
        values: &mut [f32],
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let plan = plan(&lengths, limits);
        let chunks = plan.chunks.iter().cloned().map(Work::Encode);
        let pieces = next.chunks(PIECE_TEXTS).enumerate();
        let pieces = pieces.map(|(number, texts)| Work::Tokenize(number, texts));
        let (chunks, pieces): (Vec<Work<'_, T>>, Vec<_>) = (chunks.collect(), pieces.collect());
        let (mut ids, width) = (vec![Vec::new(); next.len()], self.rule.width);
        let run = |work: &Work<'_, T>| self.work(work, &plan.order, texts);
        for done in self.lanes.run((&chunks, &pieces), self.takers, run) {
            match done? {
                Done::Vectors(chunk, vectors) => {
                    let vectors = vectors.chunks_exact(width);
                    for (&text, vector) in plan.order[chunk].iter().zip(vectors) {
                        values[text * width..][..width].copy_from_slice(vector);
                    }
                }
                Done::Ids(number, piece) => {
                    for (place, text) in ids[number * PIECE_TEXTS..].iter_mut().zip(piece) {
                        *place = text;
                    }
                }
            }
        }
        Ok(ids)
    }

    fn work<T: AsRef<str>>(
        &self,
        work: &Work<'_, T>,
        order: &[usize],
        texts: &[Vec<u32>],
    ) -> Result<Done, EncodeError> {
        match work {
            Work::Encode(chunk) => {
                let batch = self.batch(&order[chunk.clone()], texts);
                let vectors = self.model.encode(&batch, &self.rule)?;
                Ok(Done::Vectors(chunk.clone(), vectors))
            }
            Work::Tokenize(number, texts) => Ok(Done::Ids(*number, self.tokenizer.encode(texts)?)),
        }
    }

    fn batch(&self, numbers: &[usize], texts: &[Vec<u32>]) -> TokenBatch {
        let mut batch = TokenBatch {
            padding: self.tokenizer.padding(),
            ..TokenBatch::default()
        };
        numbers.iter().for_each(|&text| batch.push(&texts[text]));
        batch
    }
}

fn max_length(with: &EncoderOptions, recipe: &Recipe, limit: usize) -> Result<usize, EncoderError> {
    match with.max_length.map(NonZeroUsize::get) {
        Some(found) if found > limit => Err(EncoderError::Length { found, limit }),
        Some(found) => Ok(found),
        None => Ok(recipe.max_length.unwrap_or(limit).min(limit)),
    }
}

fn width(with: &EncoderOptions, limit: usize) -> Result<usize, EncoderError> {
    match with.dimensions.map(NonZeroUsize::get) {
        Some(found) if found > limit => Err(EncoderError::Dimensions { found, limit }),
        Some(found) => Ok(found),
        None => Ok(limit),
    }
}

fn pooling(with: &EncoderOptions, recipe: &Recipe) -> Pooling {
    let own = recipe.pooling.clone();
    match with.pooling {
        Some(mode) => Pooling {
            modes: vec![mode],
            ..own
        },
        None => own,
    }
}

fn prompt(with: &EncoderOptions, recipe: &Recipe) -> Result<String, EncoderError> {
    if let Some(prompt) = &with.prompt {
        return Ok(prompt.clone());
    }
    let Some(name) = with.prompt_name.as_ref().or(recipe.default_prompt.as_ref()) else {
        return Ok(String::new());
    };
    let unknown = || EncoderError::Prompt {
        found: name.clone(),
        known: known_prompts(recipe),
    };
    recipe.prompts.get(name).cloned().ok_or_else(unknown)
}

fn known_prompts(recipe: &Recipe) -> String {
    let names: Vec<String> = recipe
        .prompts
        .keys()
        .map(|name| format!("`{name}`"))
        .collect();
    if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", names.join(", "))
    }
}
