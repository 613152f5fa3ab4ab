//! Encodes texts as sparse vectors: a weight for each word of the vocabulary that a text is about.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::encode_times::{EncodeTimer, EncodeTimes};
use crate::encoder::{EncodeError, IsCancelled, LoadEncoderError, max_length, prompt};
use crate::engine::{self, CpuEngine, EngineInfo, MaskedLmHead};
use crate::options::EncoderOptions;
use crate::parallelism::Parallelism;
use crate::sentence_config::SentenceConfig;
use crate::source::TOKENIZER_FILE;
use crate::text_workers::TextWorkers;
use crate::tokenizer::{Prompt, Tokenizer, TokenizerOptions};
use crate::tokens::TokenBatch;
use crate::truncation::TruncationDirection;

/// A loaded model that encodes texts as sparse vectors (SPLADE; Formal et al., 2021), on the CPU. The weight of a word is
/// `ln(1 + max(0, s))`, where `s` is the largest score that the model's head for masked words gives the word at a token of the text.
#[derive(Debug)]
pub struct SparseEncoder {
    tokenizer: Tokenizer,
    engine: CpuEngine,
    head: MaskedLmHead,
    workers: TextWorkers,
    /// The model's default prompt.
    prompt: Prompt,
    max_length: usize,
}

/// How some texts are encoded, where it differs from how the model was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SparseRequest {
    /// Maximum texts of a batch. It does not change the vectors.
    pub batch_size: Option<NonZeroUsize>,
    /// Where a text with too many tokens is cut.
    pub direction: TruncationDirection,
    /// Number of weights that each vector keeps, the largest ones; `None` keeps all.
    pub top_k: Option<NonZeroUsize>,
}

/// The weights of the words that a text is about. All other words have the weight 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseVector {
    /// The ids of the words, ascending.
    pub indices: Vec<u32>,
    /// The weight of each word, larger than 0.
    pub values: Vec<f32>,
}

/// The sparse vectors of some texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseVectors {
    /// A vector for each text, in their order.
    pub vectors: Vec<SparseVector>,
    /// Number of tokens of each text, after truncation.
    pub tokens: Vec<usize>,
    /// How long the stages took.
    pub times: EncodeTimes,
}

impl SparseEncoder {
    /// Loads the model in `folder`, with its default prompt, if it has one. Options that concern devices, pooling or dense vectors are not
    /// used. `cores` is the default number of threads.
    ///
    /// # Errors
    ///
    /// If a file of the model is invalid, it has no head for masked words, or the options do not suit it.
    pub fn load(
        folder: &Path,
        options: &EncoderOptions,
        cores: NonZeroUsize,
    ) -> Result<Self, LoadEncoderError> {
        let config = SentenceConfig::read(folder)?;
        let kernels = engine::cpu_kernels(options)?;
        let loaded = engine::load_masked_lm(folder, kernels, options.cache_folder.as_deref());
        let (engine, head) = loaded.map_err(|source| LoadEncoderError::Model {
            folder: folder.to_owned(),
            source,
        })?;
        let max_length = max_length(options, &config, engine.max_tokens())?;
        let tokenizer_options = TokenizerOptions {
            max_length,
            lower_case: config.lower_case,
        };
        let tokenizer = Tokenizer::load(&folder.join(TOKENIZER_FILE), tokenizer_options)?;
        let parallelism = Parallelism::on_cpu(options, options.threads.unwrap_or(cores), false);
        Ok(Self {
            prompt: tokenizer.prompt(prompt(options, &config)?)?,
            tokenizer,
            engine,
            head,
            workers: TextWorkers::start(&parallelism)?,
            max_length,
        })
    }

    /// Maximum tokens of a text. Longer texts are truncated.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Number of words of the vocabulary: the dimensions of the vectors.
    #[must_use]
    pub fn words(&self) -> usize {
        self.head.words()
    }

    /// Names of the engine, its back end and its precision.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        self.engine.info()
    }

    /// Number of threads that compute and tokenize.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.count()
    }

    /// Maximum tokens of a batch.
    #[must_use]
    pub fn max_batch_tokens(&self) -> NonZeroUsize {
        self.workers.limits(None).max_tokens
    }

    /// Maximum texts of a batch.
    #[must_use]
    pub fn max_batch_texts(&self) -> NonZeroUsize {
        self.workers.limits(None).max_texts
    }

    /// Whether a text has more tokens than the model reads.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn truncates(
        &self,
        text: &str,
        direction: TruncationDirection,
    ) -> Result<bool, EncodeError> {
        Ok(self.tokenizer.truncates(text, &self.prompt, direction)?)
    }

    /// Encodes texts. All vectors together may have `weights_max` weights.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails, the vectors have too many weights, or `is_cancelled` returns true between two batches.
    pub fn encode<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        (request, weights_max): (SparseRequest, usize),
        is_cancelled: IsCancelled<'_>,
    ) -> Result<SparseVectors, EncodeError> {
        let timer = EncodeTimer::start();
        let mut encoded = SparseVectors::default();
        let weights = AtomicUsize::new(0);
        let is_too_many = || weights.load(Ordering::Relaxed) > weights_max;
        let is_done = || is_cancelled() || is_too_many();
        for window in texts.chunks(self.workers.window_texts()) {
            let ids = timer.tokenize(|| self.tokenize(window, request.direction, is_cancelled))?;
            let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
            let make = |scores: &[f32]| {
                if is_too_many() {
                    return SparseVector::default();
                }
                let vector = SparseVector::of(scores, request.top_k);
                weights.fetch_add(vector.indices.len(), Ordering::Relaxed);
                vector
            };
            let compute = |batch: &[usize]| Ok(self.compute(batch, &ids, &make));
            let limits = self.workers.limits(request.batch_size);
            let vectors = self.workers.in_batches(&lengths, limits, compute, &is_done);
            if is_too_many() {
                return Err(EncodeError::TooManyWeights { max: weights_max });
            }
            encoded.vectors.extend(vectors?);
            encoded.tokens.extend(lengths);
        }
        encoded.times = timer.end();
        Ok(encoded)
    }

    fn tokenize<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        direction: TruncationDirection,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        let ids = |text: &T| Ok(self.tokenizer.ids(text.as_ref(), &self.prompt, direction)?);
        self.workers.each(texts, ids, is_cancelled)
    }

    /// The vectors of the texts at these places. `make` makes one of the largest scores of a text.
    fn compute(
        &self,
        places: &[usize],
        ids: &[Vec<u32>],
        make: &dyn Fn(&[f32]) -> SparseVector,
    ) -> Vec<SparseVector> {
        let mut batch = TokenBatch::default();
        places.iter().for_each(|&place| batch.push(&ids[place]));
        let states = self.engine.forward(&batch);
        self.head.largest_scores(&batch, &states, make)
    }
}

impl SparseVector {
    /// The vector of the largest scores of a text, of which each word has one.
    fn of(scores: &[f32], top_k: Option<NonZeroUsize>) -> Self {
        let words = (0..).zip(scores.iter().copied());
        let mut words: Vec<(u32, f32)> = words.filter(|(_, score)| *score > 0.0).collect();
        if let Some(top_k) = top_k.map(NonZeroUsize::get)
            && top_k < words.len()
        {
            words.select_nth_unstable_by(top_k, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            words.truncate(top_k);
            words.sort_unstable_by_key(|(word, _)| *word);
        }
        Self {
            indices: words.iter().map(|(word, _)| *word).collect(),
            values: words.iter().map(|(_, score)| score.ln_1p()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_with_a_positive_score_have_a_weight() {
        let vector = SparseVector::of(&[0.0, 1.0, f32::NAN, 0.0, 3.0], None);
        assert_eq!(vector.indices, [1, 4]);
        assert_eq!(vector.values, [2.0_f32.ln(), 4.0_f32.ln()]);
        assert_eq!(SparseVector::of(&[], None), SparseVector::default());
    }

    #[test]
    fn the_largest_weights_are_kept_in_the_order_of_the_words() {
        let kept =
            |top_k| SparseVector::of(&[1.0, 4.0, 2.0, 4.0], NonZeroUsize::new(top_k)).indices;
        assert_eq!(kept(1), [1]);
        assert_eq!(kept(2), [1, 3]);
        assert_eq!(kept(3), [1, 2, 3]);
        assert_eq!(kept(9), [0, 1, 2, 3]);
    }
}
