//! Scores pairs of texts: tokens, batches, the engine, the classification head, and every score in the place of its text.
//!
//! Queries are tokenized once. Their texts are processed in windows: the workers tokenize a window together, then compute its batches.
//! Before each piece of work the caller is asked whether the scores are still wanted.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;

use crate::batch_plan::{BatchLimits, plan_batches};
use crate::encode_times::{EncodeTimer, EncodeTimes};
use crate::encoder::{EncodeError, IsCancelled, LoadEncoderError};
use crate::engine::{self, ClassificationHead, CpuEngine, EngineInfo};
use crate::options::EncoderOptions;
use crate::pair_tokenizer::{PairTokenizer, TextTokens};
use crate::parallelism::Parallelism;
use crate::source::TOKENIZER_FILE;
use crate::tokens::{PairTokens, TokenBatch};
use crate::worker_pool::WorkerPool;

/// Texts that a worker tokenizes before it asks again whether the scores are wanted.
const TOKENIZE_TEXTS: usize = 16;

/// A loaded model that scores how well a text answers a query (a cross-encoder; Nogueira and Cho, 2019), on the CPU.
#[derive(Debug)]
pub struct CrossEncoder {
    tokenizer: PairTokenizer,
    engine: CpuEngine,
    head: ClassificationHead,
    pool: WorkerPool,
    limits: BatchLimits,
    window_pairs: usize,
    max_length: usize,
}

/// How some pairs are scored, where it differs from how the model was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreRequest {
    /// Maximum pairs of a batch. It does not change the scores.
    pub batch_size: Option<NonZeroUsize>,
    /// Whether a pair with too many tokens is truncated. Otherwise it is an error.
    pub truncate: bool,
}

impl Default for ScoreRequest {
    fn default() -> Self {
        Self {
            batch_size: None,
            truncate: true,
        }
    }
}

/// The scores of pairs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairScores {
    /// The score of each pair, as the model gives it: any number, larger for a text that answers its query better.
    pub scores: Vec<f32>,
    /// Number of tokens of each pair, after truncation.
    pub tokens: Vec<usize>,
    /// How long the stages took.
    pub times: EncodeTimes,
}

impl CrossEncoder {
    /// Loads the model in `folder`. Options that concern devices, prompts or vectors are not used. `cores` is the default number of
    /// threads.
    ///
    /// # Errors
    ///
    /// If a file of the model is invalid, it is not a cross-encoder with one score, or the options do not suit it.
    pub fn load(
        folder: &Path,
        options: &EncoderOptions,
        cores: NonZeroUsize,
    ) -> Result<Self, LoadEncoderError> {
        let kernels = engine::cpu_kernels(options)?;
        let loaded = engine::load_cross_encoder(folder, kernels, options.cache_folder.as_deref());
        let (engine, head) = loaded.map_err(|source| LoadEncoderError::Model {
            folder: folder.to_owned(),
            source,
        })?;
        let max = engine.max_tokens();
        let max_length = options.max_length.map_or(max, NonZeroUsize::get);
        if max_length > max {
            let requested = max_length;
            return Err(LoadEncoderError::MaxLength { requested, max });
        }
        let tokenizer = PairTokenizer::load(&folder.join(TOKENIZER_FILE), max_length)?;
        let parallelism = Parallelism::on_cpu(options, options.threads.unwrap_or(cores), false);
        Ok(Self {
            tokenizer,
            engine,
            head,
            pool: WorkerPool::start(parallelism.workers)?,
            limits: parallelism.limits,
            window_pairs: parallelism.window_texts,
            max_length,
        })
    }

    /// Maximum tokens of a pair. The longer text of a longer pair is truncated.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Names of the engine, its back end and its precision.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        self.engine.info()
    }

    /// Number of threads that compute and tokenize.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.size()
    }

    /// Maximum tokens of a batch.
    #[must_use]
    pub fn max_batch_tokens(&self) -> NonZeroUsize {
        self.limits.max_tokens
    }

    /// Maximum pairs of a batch.
    #[must_use]
    pub fn max_batch_texts(&self) -> NonZeroUsize {
        self.limits.max_texts
    }

    /// Scores texts, each with the query that has this index among `queries`, and returns the scores in the same order.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails, a pair is too long, or `is_cancelled` returns true between two batches.
    ///
    /// # Panics
    ///
    /// If there is no query of an index.
    pub fn score<Q: AsRef<str> + Sync, T: AsRef<str> + Sync>(
        &self,
        queries: &[Q],
        texts: &[(usize, T)],
        request: ScoreRequest,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<PairScores, EncodeError> {
        let timer = EncodeTimer::start();
        let limits = BatchLimits {
            max_texts: request.batch_size.unwrap_or(self.limits.max_texts),
            ..self.limits
        };
        let query = |text: &Q| Ok(self.tokenizer.text(text.as_ref())?);
        let queries = timer.tokenize(|| self.each(queries, query, is_cancelled))?;
        let pair = |(query, text): &(usize, T)| self.pair(&queries[*query], text.as_ref());
        let (mut scores, mut tokens) = (Vec::with_capacity(texts.len()), Vec::new());
        for window in texts.chunks(self.window_pairs) {
            let ids = timer.tokenize(|| self.each(window, pair, is_cancelled))?;
            let too_long = ids.iter().position(|pair| pair.is_truncated);
            if let Some(place) = too_long.filter(|_| !request.truncate) {
                return Err(EncodeError::TooLong {
                    pair: tokens.len() + place,
                    max: self.max_length,
                });
            }
            tokens.extend(ids.iter().map(|pair| pair.ids.len()));
            scores.extend(self.score_window(&ids, limits, is_cancelled)?);
        }
        Ok(PairScores {
            scores,
            tokens,
            times: timer.end(),
        })
    }

    fn pair(&self, query: &TextTokens, text: &str) -> Result<PairTokens, EncodeError> {
        Ok(self.tokenizer.join(query, self.tokenizer.text(text)?)?)
    }

    /// What `make` makes of each item, on all workers.
    fn each<I: Sync, T: Clone + Default + Send>(
        &self,
        items: &[I],
        make: impl Fn(&I) -> Result<T, EncodeError> + Sync,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Vec<T>, EncodeError> {
        let parts: Vec<_> = items.chunks(TOKENIZE_TEXTS).enumerate().collect();
        let make_part = |(index, part): &(usize, &[I])| {
            if is_cancelled() {
                return Err(EncodeError::Cancelled);
            }
            let made: Result<Vec<T>, _> = part.iter().map(&make).collect();
            Ok((*index, made?))
        };
        let mut all = vec![T::default(); items.len()];
        for result in self.pool.run((&parts, &[]), self.pool.size(), make_part) {
            let (index, part) = result?;
            for (to, from) in all[index * TOKENIZE_TEXTS..].iter_mut().zip(part) {
                *to = from;
            }
        }
        Ok(all)
    }

    fn score_window(
        &self,
        pairs: &[PairTokens],
        limits: BatchLimits,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Vec<f32>, EncodeError> {
        let lengths: Vec<usize> = pairs.iter().map(|pair| pair.ids.len()).collect();
        let plan = plan_batches(&lengths, limits);
        let compute = |batch: &Range<usize>| {
            if is_cancelled() {
                return Err(EncodeError::Cancelled);
            }
            let mut tokens = TokenBatch::default();
            let indices = &plan.order[batch.clone()];
            indices
                .iter()
                .for_each(|&pair| tokens.push_pair(&pairs[pair]));
            let states = self.engine.forward(&tokens);
            Ok((batch.clone(), self.head.scores(&tokens, &states)))
        };
        let mut scores = vec![0.0; pairs.len()];
        for result in self
            .pool
            .run((&plan.batches, &[]), self.pool.size(), compute)
        {
            let (batch, of_batch) = result?;
            for (&pair, score) in plan.order[batch].iter().zip(of_batch) {
                scores[pair] = score;
            }
        }
        Ok(scores)
    }
}
