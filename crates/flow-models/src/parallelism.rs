//! What the options ask to compute with, and how the work is then shared out.
//!
//! Only decides. On the processor each thread takes texts through the model; on GPUs a thread for each stream waits for
//! its GPU, and the others tokenize meanwhile.

use std::num::NonZeroUsize;

use flow_kernels::{CpuPrecision, InstructionSet, Kernels};

use crate::batch_plan::Limits;
use crate::device::Opened;
use crate::encoder::EncoderError;
use crate::engine::{Compute, Gpus, Model};
use crate::options::{EncoderOptions, EngineName, Precision};

/// Texts that are sorted by length together: enough to find company of their own length.
const WINDOW_TEXTS: usize = 1024;
/// The same on GPUs: enough short texts for some chunks, so that a window's end, where they wait, is rare.
const WINDOW_TEXTS_ON_GPU: usize = 8192;
/// Fewer tokens do not fill a GPU, so they are not shared out among its streams.
const CHUNK_TOKENS_MIN_ON_GPU: usize = 4096;
/// Tokens and texts that one lane takes through the model together, if nothing else is said.
const BATCH_TOKENS: NonZeroUsize = NonZeroUsize::new(2048).expect("it is not zero");
const BATCH_TEXTS: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");

/// How work is shared out.
pub(crate) struct Sharing {
    pub(crate) lanes: NonZeroUsize,
    /// How many lanes take chunks; the others tokenize.
    pub(crate) takers: usize,
    pub(crate) limits: Limits,
    /// Texts that are sorted by length together.
    pub(crate) window_texts: usize,
}

impl Sharing {
    pub(crate) fn of(with: &EncoderOptions, model: &Model, cores: NonZeroUsize) -> Self {
        match model {
            Model::Gpu(gpus) => Self::on_gpus(with, gpus, cores),
            Model::Flow(_) => Self::here(with, with.threads.unwrap_or(cores), false),
            // candle spreads each operation over threads of its own, so it gets one batch at a time.
            Model::Candle(_) => Self::here(with, NonZeroUsize::MIN, true),
        }
    }

    /// Each lane computes.
    fn here(with: &EncoderOptions, lanes: NonZeroUsize, pads: bool) -> Self {
        Self {
            lanes,
            takers: lanes.get(),
            limits: Limits {
                tokens_max: with.batch_tokens.unwrap_or(BATCH_TOKENS),
                texts_max: with.batch_size.unwrap_or(BATCH_TEXTS),
                lanes,
                tokens_min: 0,
                pads,
            },
            window_texts: WINDOW_TEXTS,
        }
    }

    /// A lane for each stream, which sleeps while its GPU computes; the others tokenize meanwhile.
    fn on_gpus(with: &EncoderOptions, gpus: &Gpus, cores: NonZeroUsize) -> Self {
        let (streams, threads) = (gpus.streams(), with.threads.unwrap_or(cores));
        let tokens_max = with.batch_tokens.unwrap_or_else(|| gpus.batch_tokens());
        Self {
            lanes: streams.saturating_add(threads.get()),
            takers: streams.get(),
            limits: Limits {
                tokens_max,
                texts_max: with.batch_size.unwrap_or(NonZeroUsize::MAX),
                lanes: streams,
                tokens_min: CHUNK_TOKENS_MIN_ON_GPU.min(tokens_max.get()),
                pads: false,
            },
            window_texts: WINDOW_TEXTS_ON_GPU,
        }
    }
}

/// What the options ask to compute with.
pub(crate) fn choose(with: &EncoderOptions, device: Opened) -> Result<Compute, EncoderError> {
    match (with.engine, device.gpus.is_empty()) {
        (EngineName::Candle, true) => match with.precision {
            None | Some(Precision::F32 | Precision::Auto) => {
                Ok(Compute::Candle(with.threads.unwrap_or(device.cores)))
            }
            Some(_) => Err(EncoderError::CandlePrecision),
        },
        (EngineName::Candle, false) => Err(EncoderError::CandleDevice),
        (EngineName::Flow, true) => {
            let format = format_here(with)?;
            Ok(Compute::Flow(Kernels::select(format, with.back_end)?))
        }
        (EngineName::Flow, false) => Ok(Compute::Gpu(device.gpus, format_on_gpu(with))),
    }
}

fn format_here(with: &EncoderOptions) -> Result<CpuPrecision, EncoderError> {
    let most = with.back_end;
    let is_quick = |set: InstructionSet| most.is_none_or(|most| set <= most) && set.has_bf16();
    match with.precision {
        Some(precision @ (Precision::F16 | Precision::Tf32)) => {
            Err(EncoderError::GpuPrecision(precision))
        }
        Some(Precision::Bf16) => Ok(CpuPrecision::Bf16),
        Some(Precision::Auto) if InstructionSet::available().any(is_quick) => Ok(CpuPrecision::Bf16),
        None | Some(Precision::F32 | Precision::Auto) => Ok(CpuPrecision::F32),
    }
}

fn format_on_gpu(with: &EncoderOptions) -> flow_cuda::Format {
    match with.precision {
        None | Some(Precision::F16 | Precision::Auto) => flow_cuda::Format::F16,
        Some(Precision::F32) => flow_cuda::Format::F32,
        Some(Precision::Tf32) => flow_cuda::Format::Tf32,
        Some(Precision::Bf16) => flow_cuda::Format::Bf16,
    }
}
