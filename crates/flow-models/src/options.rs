//! How a text encoder is loaded and what it computes with.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use flow_kernels::InstructionSet;
use serde::Deserialize;

use crate::device::DeviceSpec;
use crate::pooling::PoolingMode;

/// Options of a [`TextEncoder`](crate::TextEncoder). `None` leaves a choice to the model's files or to the device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EncoderOptions {
    /// The requested device. With [`DeviceSpec::Auto`], loading falls back to the CPU if a GPU has too little memory.
    pub device: DeviceSpec,

    /// How hidden states become one vector. Default: as the model's files say.
    pub pooling: Option<PoolingMode>,

    /// Whether vectors are normalized to length 1. Default: as the model's files say.
    pub normalize: Option<bool>,

    /// Maximum tokens of a text, including special tokens. Default: the model's limit.
    pub max_length: Option<NonZeroUsize>,

    /// Number of leading values to keep of each vector (Matryoshka embeddings). Default: all.
    pub dimensions: Option<NonZeroUsize>,

    /// Text put before each input. Default: the model's default prompt.
    pub prompt: Option<String>,

    /// Name of one of the model's own prompts. Ignored if `prompt` is set.
    pub prompt_name: Option<String>,

    /// The engine that computes.
    pub engine: EngineKind,

    /// Numeric precision. Default: 32-bit floats on the CPU, half precision on a GPU.
    pub precision: Option<Precision>,

    /// The best CPU instruction set that may be used. Default: the best that the machine has.
    pub back_end: Option<InstructionSet>,

    /// Number of CPU threads. Default: one for each core.
    pub threads: Option<NonZeroUsize>,

    /// Maximum tokens of a batch. Default: 2048 on the CPU; on a GPU, as its free memory allows.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Maximum texts of a batch. Default: 64 on the CPU; unlimited on a GPU.
    pub batch_size: Option<NonZeroUsize>,

    /// Folder for what is computed from a model once: the weights of [`Precision::Int8`], and the
    /// [`Fidelity`](crate::Fidelity) of precisions. Default: it is computed each time.
    pub cache_folder: Option<PathBuf>,
}

/// The requested numeric precision of matrix products. Sums are 32-bit floats, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// 32-bit floats, of which products read the upper 19 bits. GPUs only.
    Tf32,
    /// Half precision. GPUs only.
    F16,
    /// bf16.
    Bf16,
    /// 8-bit integers, with 32-bit sums. The CPU only.
    Int8,
    /// Half precision on a GPU. On the CPU, bf16 if it multiplies that faster, else 32-bit floats.
    Auto,
    /// Half precision on a GPU. On the CPU, the fastest precision whose vectors are as close to those of 32-bit floats as
    /// [`Fidelity::FAST`](crate::Fidelity::FAST) says.
    Fast,
}

/// The software that computes a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// flow's own kernels, on the CPU or on GPUs.
    #[default]
    Flow,
    /// candle, on the CPU: the reference.
    Candle,
}

const PRECISIONS: &str =
    "`f32`, `bf16`, `auto` and `fast`, on the CPU `int8`, and on a GPU `f16` and `tf32`";

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Auto => "auto",
            Self::Fast => "fast",
        })
    }
}

impl TryFrom<String> for Precision {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "f32" | "float32" | "fp32" => Ok(Self::F32),
            "tf32" => Ok(Self::Tf32),
            "f16" | "float16" | "fp16" => Ok(Self::F16),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            "auto" => Ok(Self::Auto),
            "fast" => Ok(Self::Fast),
            "int8" => Ok(Self::Int8),
            _ => Err(format!(
                "`{text}` is not a precision; choose among {PRECISIONS}"
            )),
        }
    }
}
