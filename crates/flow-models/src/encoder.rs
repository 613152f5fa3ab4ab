//! Encodes texts: tokens, batches, the engine, pooling, and every vector in the place of its text.
//!
//! Many texts are processed in windows. While a window is encoded, the next one is tokenized by the same workers: a worker
//! that has no batch tokenizes a few texts at a time. So the engine never waits for tokens, and no worker is idle. A request
//! with a few texts is a single window. Before each batch the caller is asked whether the vectors are still wanted.

mod choices;
mod error;
mod token_vectors;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;

pub(crate) use self::choices::{max_length, prompt};
use self::choices::{pooling, skipped_tokens, width};
pub use self::error::{EncodeError, LoadEncoderError};
pub use self::token_vectors::TokenVectors;

use crate::batch_plan::{BatchLimits, plan_batches};
use crate::device::{OpenDevices, load_or_fall_back};
use crate::encode_times::{EncodeTimer, EncodeTimes};
use crate::engine::{EngineConfig, EngineInfo, GpuEngine, ModelEngine};
use crate::fast::fast_precision;
use crate::fidelity::Fidelity;
use crate::matryoshka::Matryoshka;
use crate::options::{EncoderOptions, EngineKind, Precision};
use crate::parallelism::Parallelism;
use crate::pooling::PoolingHead;
use crate::sentence_config::SentenceConfig;
use crate::source::TOKENIZER_FILE;
use crate::tokenizer::{Prompt, Tokenizer, TokenizerOptions};
use crate::tokens::TokenBatch;
use crate::truncation::TruncationDirection;
use crate::vectors::Vectors;
use crate::worker_pool::WorkerPool;

/// Texts that are tokenized at once. They take a fraction of a millisecond.
const TOKENIZE_TEXTS: usize = 16;

/// Maximum bytes of a text that is tokenized while the workers wake up, which takes some tens of microseconds. The workers
/// would wait for a longer one.
const SHORT_TEXT_BYTES: usize = 512;

/// A loaded model that turns texts into vectors.
#[derive(Debug)]
pub struct TextEncoder {
    tokenizer: Tokenizer,
    engine: ModelEngine,
    pool: WorkerPool,
    /// Number of workers that run batches. The others only tokenize.
    batch_workers: usize,
    head: PoolingHead,
    /// The prompt of a request without one.
    prompt: Prompt,
    /// The model's own prompts.
    prompts: BTreeMap<String, String>,
    /// The name of the one that the model's authors use by default.
    default_prompt_name: Option<String>,
    /// Whether the tokens of the prompt are pooled.
    pools_prompt: bool,
    limits: BatchLimits,
    window_texts: usize,
    max_length: usize,
    matryoshka: Matryoshka,
}

/// How some texts are encoded, where it differs from how the encoder was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeRequest<'p> {
    /// Maximum texts of a batch. It does not change the vectors.
    pub batch_size: Option<NonZeroUsize>,
    /// Whether vectors are normalized to length 1.
    pub normalize: Option<bool>,
    /// Text put before each input.
    pub prompt: Option<&'p str>,
    /// Where a text with too many tokens is cut.
    pub direction: TruncationDirection,
}

/// How texts become tokens.
#[derive(Debug, Clone, Copy)]
struct Reading<'a> {
    prompt: &'a Prompt,
    direction: TruncationDirection,
}

/// Says whether an encoding is to end early. Workers ask before each batch, from several threads.
pub type IsCancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// Texts of a window, as token ids, and how they are encoded.
#[derive(Clone, Copy)]
struct Window<'a> {
    texts: &'a [Vec<u32>],
    head: &'a PoolingHead,
    /// How the texts of the next window become tokens.
    reading: Reading<'a>,
    is_cancelled: IsCancelled<'a>,
}

/// A unit of work for a worker.
enum Job<'a, T> {
    /// Encode a batch of the window's texts: a range of the plan's order.
    Encode(Range<usize>),
    /// Tokenize some texts of the next window, with their index among such jobs.
    Tokenize(usize, &'a [T]),
}

/// The result of a [`Job`].
enum JobResult {
    Vectors(Range<usize>, Vec<f32>),
    Ids(usize, Vec<Vec<u32>>),
}

impl TextEncoder {
    /// Loads the model in `folder`.
    ///
    /// If the options leave the choice of the device to the encoder ([`DeviceSpec::Auto`](crate::DeviceSpec::Auto)) and the GPU has too little memory
    /// for the model, the CPU computes.
    ///
    /// # Errors
    ///
    /// If a file of the model is invalid, or the options do not suit the model or the device.
    pub fn load(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<Self, LoadEncoderError> {
        let load = |devices| Self::load_onto(folder, options, devices);
        let is_out_of_memory = LoadEncoderError::is_out_of_memory;
        load_or_fall_back(options.device, devices, load, is_out_of_memory)
    }

    fn load_onto(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<Self, LoadEncoderError> {
        let is_fast = options.precision == Some(Precision::Fast);
        let mut options = options.clone();
        if is_fast && options.engine == EngineKind::Flow && devices.gpus.is_empty() {
            let measure = |options: &EncoderOptions| Self::fidelity(folder, options, &devices);
            options.precision = Some(fast_precision(&options, measure)?);
        }
        Self::load_exactly(folder, &options, devices)
    }

    /// Measures how close vectors in the precision of the options are to those of 32-bit floats, for the model in `folder`. It
    /// does so once for each model, if the options name a folder to store the result in.
    ///
    /// # Errors
    ///
    /// If the model cannot be loaded, or a text cannot be encoded.
    pub fn fidelity(
        folder: &Path,
        options: &EncoderOptions,
        devices: &OpenDevices,
    ) -> Result<Fidelity, LoadEncoderError> {
        Fidelity::measure(folder, options, |options, texts| {
            let encoder = Self::load_exactly(folder, options, devices.clone())?;
            let vectors = encoder.encode(texts, None)?;
            Ok(vectors.rows().map(<[f32]>::to_vec).collect())
        })
    }

    /// Loads the model with the precision of the options.
    fn load_exactly(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<Self, LoadEncoderError> {
        let config = SentenceConfig::read(folder)?;
        if config.is_sparse {
            return Err(LoadEncoderError::Sparse);
        }
        let cores = devices.cores;
        let engine_config = EngineConfig::choose(options, devices)?;
        let engine = ModelEngine::load(folder, &engine_config);
        let engine = engine.map_err(|source| LoadEncoderError::Model {
            folder: folder.to_owned(),
            source,
        })?;
        let max_length = max_length(options, &config, engine.max_tokens())?;
        let tokenizer_options = TokenizerOptions {
            max_length,
            lower_case: config.lower_case,
        };
        let tokenizer = Tokenizer::load(&folder.join(TOKENIZER_FILE), tokenizer_options)?;
        let prompt = tokenizer.prompt(prompt(options, &config)?)?;
        let pooling = pooling(options, &config);
        let modes = pooling.modes;
        let parallelism = Parallelism::new(options, &engine, cores);
        Ok(Self {
            tokenizer,
            pool: WorkerPool::start(parallelism.workers)?,
            batch_workers: parallelism.batch_workers,
            limits: parallelism.limits,
            window_texts: parallelism.window_texts,
            head: PoolingHead {
                width: width(options, engine.hidden_size() * modes.len())?,
                skipped_tokens: skipped_tokens(pooling.includes_prompt, &prompt),
                modes,
                normalize: options.normalize.unwrap_or(config.normalize),
            },
            prompt,
            prompts: config.prompts,
            default_prompt_name: config.default_prompt,
            pools_prompt: pooling.includes_prompt,
            engine,
            max_length,
            matryoshka: Matryoshka::read(folder),
        })
    }

    /// Number of values of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.head.width
    }

    /// Names of the engine, its back end and its precision.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        self.engine.info()
    }

    /// The GPU engine, if GPUs compute.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuEngine> {
        self.engine.gpu()
    }

    /// Maximum tokens of a batch.
    #[must_use]
    pub fn max_batch_tokens(&self) -> NonZeroUsize {
        self.limits.max_tokens
    }

    /// Maximum texts of a batch.
    #[must_use]
    pub fn max_batch_texts(&self) -> NonZeroUsize {
        self.limits.max_texts
    }

    /// Bytes of the model's weights in memory. `None` if candle stores them.
    #[must_use]
    pub fn weight_bytes(&self) -> Option<usize> {
        self.engine.weight_bytes()
    }

    /// Number of threads that compute or tokenize.
    #[must_use]
    pub fn threads(&self) -> usize {
        let candle_threads = self.engine.candle_threads();
        candle_threads.unwrap_or_else(|| self.pool.size())
    }

    /// Maximum tokens of a text. Longer texts are truncated.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// How hidden states become vectors.
    #[must_use]
    pub fn head(&self) -> &PoolingHead {
        &self.head
    }

    /// The tokenizer, which truncates texts.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model's own prompts, by name.
    #[must_use]
    pub fn prompts(&self) -> &BTreeMap<String, String> {
        &self.prompts
    }

    /// The name of the prompt that the model's authors use by default.
    #[must_use]
    pub fn default_prompt_name(&self) -> Option<&str> {
        self.default_prompt_name.as_deref()
    }

    /// Whether a text has more tokens than the model reads. `prompt` is the text before it, if it is not
    /// the default one.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn truncates(
        &self,
        text: &str,
        prompt: Option<&str>,
        direction: TruncationDirection,
    ) -> Result<bool, EncodeError> {
        let prompt = self.prompt(prompt)?;
        Ok(self.tokenizer.truncates(text, &prompt, direction)?)
    }

    /// The prompt of a request.
    fn prompt(&self, requested: Option<&str>) -> Result<Cow<'_, Prompt>, EncodeError> {
        Ok(match requested {
            None => Cow::Borrowed(&self.prompt),
            Some(text) => Cow::Owned(self.tokenizer.prompt(text.to_owned())?),
        })
    }

    /// The shorter vectors that the model was trained for (Matryoshka embeddings), as its `config.json` says.
    #[must_use]
    pub fn matryoshka(&self) -> &Matryoshka {
        &self.matryoshka
    }

    /// Number of tokens of each text, after truncation.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn count_tokens<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
    ) -> Result<Vec<usize>, EncodeError> {
        let reading = Reading {
            prompt: &self.prompt,
            direction: TruncationDirection::default(),
        };
        let ids = self.tokenize(texts, reading, (self.limits, &|| false))?;
        Ok(ids.iter().map(Vec::len).collect())
    }

    /// Floating-point operations of all matrix products for a text of `tokens` tokens.
    #[must_use]
    pub fn flop(&self, tokens: usize) -> f64 {
        self.engine.flop(tokens)
    }

    /// Encodes texts, and returns their vectors in the same order. `batch_size` overrides the configured maximum of texts in a
    /// batch; it does not change the vectors.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails.
    pub fn encode<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        batch_size: Option<NonZeroUsize>,
    ) -> Result<Vectors, EncodeError> {
        let request = EncodeRequest {
            batch_size,
            ..EncodeRequest::default()
        };
        self.encode_with(texts, request)
    }

    /// Encodes texts as a request asks for it, and returns their vectors in the same order.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails.
    pub fn encode_with<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        request: EncodeRequest<'_>,
    ) -> Result<Vectors, EncodeError> {
        let (vectors, _) = self.encode_timed(texts, request, &|| false)?;
        Ok(vectors)
    }

    /// Encodes texts as a request asks for it, and says how long the stages took.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails, or `is_cancelled` returns true between two batches.
    pub fn encode_timed<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        request: EncodeRequest<'_>,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<(Vectors, EncodeTimes), EncodeError> {
        let timer = EncodeTimer::start();
        let prompt = self.prompt(request.prompt)?;
        let reading = Reading {
            prompt: &prompt,
            direction: request.direction,
        };
        let limits = BatchLimits {
            max_texts: request.batch_size.unwrap_or(self.limits.max_texts),
            ..self.limits
        };
        let head = PoolingHead {
            normalize: request.normalize.unwrap_or(self.head.normalize),
            skipped_tokens: skipped_tokens(self.pools_prompt, &prompt),
            ..self.head.clone()
        };
        let width = head.width;
        if let [text] = texts {
            let (values, tokens) = self.encode_one((text.as_ref(), reading, &timer), &head)?;
            let vectors = Vectors {
                values,
                width,
                tokens: vec![tokens],
            };
            return Ok((vectors, timer.end()));
        }
        let mut values = vec![0.0; texts.len() * width];
        let mut tokens = Vec::with_capacity(texts.len());
        let mut windows = texts.chunks(self.window_texts);
        let first = windows.next().unwrap_or_default();
        let mut ids = timer.tokenize(|| self.tokenize(first, reading, (limits, is_cancelled)))?;
        for window in values.chunks_mut(self.window_texts * width) {
            tokens.extend(ids.iter().map(Vec::len));
            let next = windows.next().unwrap_or_default();
            let encoded = Window {
                texts: &ids,
                head: &head,
                reading,
                is_cancelled,
            };
            ids = self.encode_window(encoded, next, limits, window)?;
        }
        let vectors = Vectors {
            values,
            width,
            tokens,
        };
        Ok((vectors, timer.end()))
    }

    /// Encodes a single text, on all workers where the engine can.
    fn encode_one(
        &self,
        (text, reading, timer): (&str, Reading<'_>, &EncodeTimer),
        head: &PoolingHead,
    ) -> Result<(Vec<f32>, usize), EncodeError> {
        let is_long = text.len() > SHORT_TEXT_BYTES;
        let Reading { prompt, direction } = reading;
        let ids = || timer.tokenize(|| self.tokenizer.ids(text, prompt, direction));
        let early = is_long.then(ids).transpose()?;
        let tokenize = || -> Result<_, EncodeError> {
            match &early {
                Some(ids) => Ok(ids.clone()),
                None => Ok(ids()?),
            }
        };
        self.engine.encode_one(&tokenize, head, &self.pool)
    }

    /// The token ids of each text.
    fn tokenize<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        reading: Reading<'_>,
        (limits, is_cancelled): (BatchLimits, IsCancelled<'_>),
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        if texts.len() <= TOKENIZE_TEXTS {
            // Waking the workers would take longer.
            let Reading { prompt, direction } = reading;
            return Ok(self.tokenizer.encode(texts, prompt, direction)?);
        }
        let none = Window {
            texts: &[],
            head: &self.head,
            reading,
            is_cancelled,
        };
        self.encode_window(none, texts, limits, &mut [])
    }

    /// Encodes a window into `values`, and tokenizes the next one, whose token ids it returns.
    fn encode_window<T: AsRef<str> + Sync>(
        &self,
        encoded: Window<'_>,
        next: &[T],
        limits: BatchLimits,
        values: &mut [f32],
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        let lengths: Vec<usize> = encoded.texts.iter().map(Vec::len).collect();
        let plan = plan_batches(&lengths, limits);
        let batches = plan.batches.iter().cloned().map(Job::Encode);
        let batches: Vec<Job<'_, T>> = batches.collect();
        let parts = next.chunks(TOKENIZE_TEXTS).enumerate();
        let parts: Vec<_> = parts
            .map(|(index, texts)| Job::Tokenize(index, texts))
            .collect();
        let (mut ids, width) = (vec![Vec::new(); next.len()], encoded.head.width);
        let run = |job: &Job<'_, T>| self.run(job, &plan.order, encoded);
        for result in self.pool.run((&batches, &parts), self.batch_workers, run) {
            match result? {
                JobResult::Vectors(batch, vectors) => {
                    let vectors = vectors.chunks_exact(width);
                    for (&text, vector) in plan.order[batch].iter().zip(vectors) {
                        values[text * width..][..width].copy_from_slice(vector);
                    }
                }
                JobResult::Ids(index, part) => {
                    for (to, from) in ids[index * TOKENIZE_TEXTS..].iter_mut().zip(part) {
                        *to = from;
                    }
                }
            }
        }
        Ok(ids)
    }

    fn run<T: AsRef<str>>(
        &self,
        job: &Job<'_, T>,
        order: &[usize],
        window: Window<'_>,
    ) -> Result<JobResult, EncodeError> {
        if (window.is_cancelled)() {
            return Err(EncodeError::Cancelled);
        }
        match job {
            Job::Encode(batch) => {
                let tokens = self.token_batch(&order[batch.clone()], window.texts);
                let vectors = self.engine.encode(&tokens, window.head)?;
                Ok(JobResult::Vectors(batch.clone(), vectors))
            }
            Job::Tokenize(index, texts) => {
                let Reading { prompt, direction } = window.reading;
                let ids = self.tokenizer.encode(texts, prompt, direction)?;
                Ok(JobResult::Ids(*index, ids))
            }
        }
    }

    fn token_batch(&self, indices: &[usize], texts: &[Vec<u32>]) -> TokenBatch {
        let mut batch = TokenBatch {
            padding_id: self.tokenizer.padding_id(),
            ..TokenBatch::default()
        };
        indices.iter().for_each(|&text| batch.push(&texts[text]));
        batch
    }
}
