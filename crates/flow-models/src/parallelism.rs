//! Decides how many workers there are, what they do, and how large their batches are.
//!
//! On the CPU, each worker takes texts through the model. On GPUs, one worker per stream waits for its GPU, and the others
//! tokenize meanwhile.

use std::num::NonZeroUsize;

use crate::batch_plan::BatchLimits;
use crate::engine::{GpuEngine, ModelEngine};
use crate::options::EncoderOptions;

/// Texts that are sorted by length together: enough to find others of similar length.
const WINDOW_TEXTS: usize = 1024;
/// The same for GPUs: enough short texts for several batches, because GPUs wait at the end of a window.
const WINDOW_TEXTS_ON_GPU: usize = 8192;
/// Fewer tokens do not occupy a GPU, so they are not distributed among its streams.
const MIN_BATCH_TOKENS_ON_GPU: usize = 4096;
/// Default limits of a batch on the CPU.
const MAX_BATCH_TOKENS: NonZeroUsize = NonZeroUsize::new(2048).expect("not zero");
const MAX_BATCH_TEXTS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// How an encoder distributes its work.
pub(crate) struct Parallelism {
    /// Number of workers.
    pub(crate) workers: NonZeroUsize,
    /// Number of workers that run batches. The others only tokenize.
    pub(crate) batch_workers: usize,
    pub(crate) limits: BatchLimits,
    /// Number of texts that are planned together.
    pub(crate) window_texts: usize,
}

impl Parallelism {
    /// `cores` is the default number of threads.
    pub(crate) fn new(options: &EncoderOptions, engine: &ModelEngine, cores: NonZeroUsize) -> Self {
        match engine {
            ModelEngine::Gpu(engine) => Self::on_gpus(options, engine, cores),
            ModelEngine::Cpu(_) => Self::on_cpu(options, options.threads.unwrap_or(cores), false),
            // candle distributes each operation over threads of its own, so it gets one batch at a time.
            ModelEngine::Candle(_) => Self::on_cpu(options, NonZeroUsize::MIN, true),
        }
    }

    /// Every worker runs batches.
    pub(crate) fn on_cpu(options: &EncoderOptions, workers: NonZeroUsize, pads: bool) -> Self {
        Self {
            workers,
            batch_workers: workers.get(),
            limits: BatchLimits {
                max_tokens: options.batch_tokens.unwrap_or(MAX_BATCH_TOKENS),
                max_texts: options.batch_size.unwrap_or(MAX_BATCH_TEXTS),
                workers,
                min_tokens: 0,
                pads,
            },
            window_texts: WINDOW_TEXTS,
        }
    }

    /// One worker per stream, which sleeps while its GPU computes. The others tokenize meanwhile.
    fn on_gpus(options: &EncoderOptions, engine: &GpuEngine, cores: NonZeroUsize) -> Self {
        let (streams, threads) = (engine.streams(), options.threads.unwrap_or(cores));
        let max_tokens = options
            .batch_tokens
            .unwrap_or_else(|| engine.max_batch_tokens());
        Self {
            workers: streams.saturating_add(threads.get()),
            batch_workers: streams.get(),
            limits: BatchLimits {
                max_tokens,
                // Each text has at least one token.
                max_texts: options.batch_size.unwrap_or(max_tokens),
                workers: streams,
                min_tokens: MIN_BATCH_TOKENS_ON_GPU.min(max_tokens.get()),
                pads: false,
            },
            window_texts: WINDOW_TEXTS_ON_GPU,
        }
    }
}
