//! Runs a model with a classification head on texts and pairs of texts: tokens, batches, the engine, the head, and the outputs of each
//! in its place.
//!
//! Texts are processed in windows: the workers tokenize a window together, then compute its batches. Before each piece of work the caller
//! is asked whether the outputs are still wanted.

use std::num::NonZeroUsize;
use std::path::Path;

use crate::device::{OpenDevices, load_or_fall_back};
use crate::encode_times::EncodeTimer;
use crate::encoder::{EncodeError, IsCancelled, LoadEncoderError};
use crate::engine::{
    self, ClassificationHead, EngineConfig, EngineInfo, GpuEngine, LabelConfig, ModelEngine,
};
use crate::options::EncoderOptions;
use crate::pair_tokenizer::PairTokenizer;
use crate::parallelism::Parallelism;
use crate::pooling::{PoolingHead, PoolingMode};
use crate::source::TOKENIZER_FILE;
use crate::text_workers::TextWorkers;
use crate::tokens::{PairTokens, TokenBatch};
use crate::truncation::TruncationDirection;

/// A loaded model with a classification head. The head runs on the CPU.
#[derive(Debug)]
pub struct SequenceClassifier {
    tokenizer: PairTokenizer,
    engine: ModelEngine,
    /// Takes the state of the first token of each text, which the head turns into outputs.
    first_states: PoolingHead,
    head: ClassificationHead,
    workers: TextWorkers,
    max_length: usize,
}

/// How some texts or pairs are scored, where it differs from how the model was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreRequest {
    /// Maximum texts or pairs of a batch. It does not change the scores.
    pub batch_size: Option<NonZeroUsize>,
    /// Whether a text or pair with too many tokens is truncated. Otherwise it is an error.
    pub truncate: bool,
    /// Where a text with too many tokens is cut.
    pub direction: TruncationDirection,
}

impl Default for ScoreRequest {
    fn default() -> Self {
        Self {
            batch_size: None,
            truncate: true,
            direction: TruncationDirection::default(),
        }
    }
}

/// What a model gives for texts or pairs.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// One value for each label, text after text.
    pub(crate) values: Vec<f32>,
    /// Number of tokens of each text or pair, after truncation.
    pub(crate) tokens: Vec<usize>,
}

impl SequenceClassifier {
    /// Loads the model in `folder`, and what its configuration says of its labels. Options that concern prompts or vectors are not used.
    ///
    /// If the options leave the choice of the device to the classifier ([`DeviceSpec::Auto`](crate::DeviceSpec::Auto)) and the GPU has too little memory for the
    /// model, the CPU computes.
    ///
    /// # Errors
    ///
    /// If a file of the model is invalid, it has no classification head, or the options do not suit it or the device.
    pub(crate) fn load(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<(Self, LabelConfig), LoadEncoderError> {
        let load = |devices| Self::load_onto(folder, options, devices);
        let is_out_of_memory = LoadEncoderError::is_out_of_memory;
        load_or_fall_back(options.device, devices, load, is_out_of_memory)
    }

    fn load_onto(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<(Self, LabelConfig), LoadEncoderError> {
        let cores = devices.cores;
        let kernels = engine::exact_cpu_kernels(options)?;
        let config = EngineConfig::choose(options, devices)?;
        let loaded = engine::load_classifier(folder, &config, kernels);
        let (engine, head, labels) = loaded.map_err(|source| LoadEncoderError::Model {
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
        let parallelism = Parallelism::new(options, &engine, cores);
        let classifier = Self {
            tokenizer,
            first_states: PoolingHead {
                modes: vec![PoolingMode::Cls],
                skipped_tokens: 0,
                width: engine.hidden_size(),
                normalize: false,
            },
            engine,
            head,
            workers: TextWorkers::start(&parallelism)?,
            max_length,
        };
        Ok((classifier, labels))
    }

    /// Maximum tokens of a text or pair. A text that is too long is cut, and in a pair the longer text is.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.max_length
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

    /// Number of threads that compute or tokenize.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.count()
    }

    /// Maximum tokens of a batch.
    #[must_use]
    pub fn max_batch_tokens(&self) -> NonZeroUsize {
        self.workers.limits(None).max_tokens
    }

    /// Maximum texts or pairs of a batch.
    #[must_use]
    pub fn max_batch_texts(&self) -> NonZeroUsize {
        self.workers.limits(None).max_texts
    }

    pub(crate) fn tokenizer(&self) -> &PairTokenizer {
        &self.tokenizer
    }

    pub(crate) fn workers(&self) -> &TextWorkers {
        &self.workers
    }

    /// Number of labels.
    pub(crate) fn labels(&self) -> usize {
        self.head.labels()
    }

    /// The outputs of texts or pairs, in their order. `tokenize` makes the tokens of one.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails, a text or pair is too long, or `is_cancelled` returns true between two batches.
    pub(crate) fn run<I: Sync>(
        &self,
        items: &[I],
        tokenize: impl Fn(&I) -> Result<PairTokens, EncodeError> + Sync,
        (request, timer): (ScoreRequest, &EncodeTimer),
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Outputs, EncodeError> {
        let mut outputs = Outputs::default();
        outputs.values.reserve(items.len() * self.labels());
        for window in items.chunks(self.workers.window_texts()) {
            let ids = timer.tokenize(|| self.workers.each(window, &tokenize, is_cancelled))?;
            let too_long = ids.iter().position(|pair| pair.is_truncated);
            if let Some(place) = too_long.filter(|_| !request.truncate) {
                return Err(EncodeError::TooLong {
                    text: outputs.tokens.len() + place,
                    max: self.max_length,
                });
            }
            outputs.tokens.extend(ids.iter().map(|pair| pair.ids.len()));
            let rows = self.run_window(&ids, request, is_cancelled)?;
            outputs.values.extend(rows.into_iter().flatten());
        }
        Ok(outputs)
    }

    fn run_window(
        &self,
        texts: &[PairTokens],
        request: ScoreRequest,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Vec<Vec<f32>>, EncodeError> {
        let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        let compute = |places: &[usize]| {
            let mut tokens = TokenBatch::default();
            places
                .iter()
                .for_each(|&text| tokens.push_pair(&texts[text]));
            let states = self.engine.encode(&tokens, &self.first_states)?;
            let outputs = self.head.outputs(&states);
            let rows = outputs.chunks_exact(self.labels());
            Ok(rows.map(<[f32]>::to_vec).collect())
        };
        let limits = self.workers.limits(request.batch_size);
        self.workers
            .in_batches(&lengths, limits, compute, is_cancelled)
    }
}
