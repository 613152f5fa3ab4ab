//! What stands under `uses_with:`, and which of it makes no sense.

use std::fmt;
use std::num::NonZeroUsize;

use flow_core::AccessPaths;
use flow_kernels::InstructionSet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::device::Device;
use crate::pooling::PoolingMode;
use crate::source::DEFAULT_MODEL;

/// The options of the sentence encoder. Names of Jina's TransformerTorchEncoder are understood too.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct With {
    /// A folder, or a name on the Hugging Face hub.
    #[serde(
        alias = "pretrained_model_name_or_path",
        alias = "model_name",
        alias = "model_name_or_path"
    )]
    pub model: String,

    /// A branch, tag or commit of the model; `main` if not given.
    pub revision: Option<String>,

    /// `cpu`, `cuda`, `cuda:0`, `cuda:all`, `gpu`, or `auto`.
    pub device: Device,

    /// How token states become one vector; what the model's own files say if not given.
    #[serde(alias = "pooling_strategy")]
    pub pooling: Option<PoolingMode>,

    /// Whether vectors get the length 1; what the model's own files say if not given.
    #[serde(alias = "normalize_embeddings")]
    pub normalize: Option<bool>,

    /// Most tokens of a text that are read, special ones included; the model's own limit if not given.
    #[serde(alias = "max_seq_length")]
    pub max_length: Option<NonZeroUsize>,

    /// Most tokens, with padding, that go through the model together. It bounds memory and has no
    /// influence on the vectors. If not given: 2048 on the processor; on a GPU, what its memory has room for.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Most texts that go through the model together. It has no influence on the vectors either. If not given: 64 on
    /// the processor; on a GPU, as many as `batch_tokens` allows.
    #[serde(alias = "default_batch_size")]
    pub batch_size: Option<NonZeroUsize>,

    /// The numbers that are computed with. If not given: 32-bit floats on the processor, because vectors are the same
    /// on every machine then, so that an index that one has made can be searched from another; half precision on a GPU.
    pub precision: Option<Precision>,

    /// What computes.
    pub engine: EngineName,

    /// The best instructions that may be used, such as `avx2`; all that the machine has if not given.
    #[serde(deserialize_with = "back_end")]
    pub back_end: Option<InstructionSet>,

    /// Which documents are encoded, such as `@r`, `@c` or `@r,c`.
    #[serde(
        alias = "traversal_paths",
        alias = "default_traversal_paths",
        alias = "default_access_paths"
    )]
    pub access_paths: AccessPaths,

    /// Put before each text, such as `query: `. The model's default prompt if not given.
    pub prompt: Option<String>,

    /// A prompt of the model's own, by the name it has there.
    pub prompt_name: Option<String>,

    /// Keeps only so many values of a vector (Matryoshka), and normalises after that.
    #[serde(alias = "truncate_dim")]
    pub dimensions: Option<NonZeroUsize>,

    /// How many threads compute; one for each core if not given.
    #[serde(alias = "num_threads")]
    pub threads: Option<NonZeroUsize>,

    /// Of TransformerTorchEncoder; only the model's own tokenizer is used.
    pub base_tokenizer_model: Option<String>,

    /// Of TransformerTorchEncoder; only the last layer, -1, can be used.
    pub layer_index: i64,

    /// Of TransformerTorchEncoder; only `__call__` can be used.
    pub embedding_fn_name: String,
}

impl Default for With {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            revision: None,
            device: Device::default(),
            pooling: None,
            normalize: None,
            max_length: None,
            batch_tokens: None,
            batch_size: None,
            precision: None,
            engine: EngineName::default(),
            back_end: None,
            access_paths: AccessPaths::default(),
            prompt: None,
            prompt_name: None,
            dimensions: None,
            threads: None,
            base_tokenizer_model: None,
            layer_index: -1,
            embedding_fn_name: CALL.to_owned(),
        }
    }
}

/// The name under which Python calls a model itself.
const CALL: &str = "__call__";

/// The numbers that are computed with. Sums are 32-bit floats in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// 32-bit floats, of which products see the upper 19 bits. Only GPUs know it.
    Tf32,
    /// Half precision. Only GPUs know it.
    F16,
    /// bf16.
    Bf16,
    /// Half precision on a GPU; bf16 where the processor multiplies them faster, else 32-bit floats.
    Auto,
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Our own kernels.
    #[default]
    Flow,
    /// candle, the plain way.
    Candle,
}

const PRECISIONS: &str = "`f32`, `bf16` and `auto`, and on a GPU `f16` and `tf32`";

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Auto => "auto",
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
            "int8" => Err(format!(
                "precision `{text}` is not built yet; there are {PRECISIONS}"
            )),
            _ => Err(format!(
                "`{text}` is not a precision; there are {PRECISIONS}"
            )),
        }
    }
}

fn back_end<'de, D: Deserializer<'de>>(text: D) -> Result<Option<InstructionSet>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    let parse = |text: String| text.parse().map_err(D::Error::custom);
    text.map(parse).transpose()
}

/// An option makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// A layer other than the last.
    #[error("`layer_index` is {0}, but only the last layer, -1, can be used")]
    Layer(i64),
    /// A way to call the model that only Python has.
    #[error("`embedding_fn_name` is `{0}`, but only `{CALL}` can be used")]
    Function(String),
    /// A tokenizer of another model.
    #[error(
        "`base_tokenizer_model` is `{tokenizer}`, but only the tokenizer of `{model}` itself can be used"
    )]
    Tokenizer {
        /// What was asked for.
        tokenizer: String,
        /// The model.
        model: String,
    },
    /// Two prompts.
    #[error("`prompt` and `prompt_name` are both given; give one of them")]
    Prompts,
}

impl With {
    /// Finds what cannot be done whatever the model is.
    ///
    /// # Errors
    ///
    /// If there is such an option.
    pub fn check(&self) -> Result<(), BadOption> {
        if self.layer_index != -1 {
            return Err(BadOption::Layer(self.layer_index));
        }
        if self.embedding_fn_name != CALL {
            return Err(BadOption::Function(self.embedding_fn_name.clone()));
        }
        if self.prompt.is_some() && self.prompt_name.is_some() {
            return Err(BadOption::Prompts);
        }
        match &self.base_tokenizer_model {
            Some(tokenizer) if *tokenizer != self.model => Err(BadOption::Tokenizer {
                tokenizer: tokenizer.clone(),
                model: self.model.clone(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_executor::check_options;
    use serde_json::{Value, json};

    use super::*;
    use crate::SentenceEncoder;

    fn parse(with: Value) -> Result<With, String> {
        let bad = check_options::<SentenceEncoder>(with.as_object().unwrap());
        match bad.as_slice() {
            [] => Ok(serde_json::from_value(with).unwrap()),
            bad => Err(bad.iter().map(ToString::to_string).collect()),
        }
    }

    #[track_caller]
    fn check_refused(with: Value, parts: &[&str]) {
        let error = parse(with).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{error:?} does not say {part:?}");
        }
    }

    #[test]
    fn no_options_are_fine() {
        assert_eq!(parse(json!({})), Ok(With::default()));
    }

    #[test]
    fn options_of_the_torch_encoder_are_understood() {
        let with = parse(json!({
            "pretrained_model_name_or_path": "a/b",
            "base_tokenizer_model": "a/b",
            "pooling_strategy": "cls",
            "layer_index": -1,
            "max_length": 128,
            "embedding_fn_name": "__call__",
            "device": "cpu",
            "num_threads": 1,
            "default_traversal_paths": ["r", "c"],
            "default_batch_size": 16,
        }));
        let with = with.unwrap();
        assert_eq!(with.model, "a/b");
        assert_eq!(with.pooling, Some(PoolingMode::Cls));
        assert_eq!(with.access_paths, "@r,c".parse().unwrap());
        assert_eq!(with.batch_size.map(NonZeroUsize::get), Some(16));
    }

    #[test]
    fn what_cannot_be_done_is_named_with_what_can() {
        check_refused(
            json!({"modle": "a/b"}),
            &["`modle` is not an option", "did you mean `model`?"],
        );
        check_refused(json!({"pooling": "meen"}), &["`meen`", "`mean`", "`cls`"]);
        check_refused(json!({"device": "tpu"}), &["`tpu`", "`cpu`"]);
        check_refused(
            json!({"precision": "int8"}),
            &["`int8`", "not built yet", "`f32`", "`bf16`", "`f16`"],
        );
        check_refused(json!({"precision": "f8"}), &["`f8`", "`f32`"]);
        check_refused(
            json!({"engine": "torch"}),
            &["`torch`", "`flow`", "`candle`"],
        );
        check_refused(
            json!({"back_end": "sse"}),
            &["`sse`", "`avx2`", "`portable`"],
        );
        check_refused(json!({"layer_index": -2}), &["-2", "last layer"]);
        check_refused(
            json!({"embedding_fn_name": "encode"}),
            &["`encode`", "`__call__`"],
        );
        check_refused(
            json!({"base_tokenizer_model": "x"}),
            &["`x`", "all-MiniLM-L6-v2"],
        );
        check_refused(json!({"prompt": "a", "prompt_name": "b"}), &["one of them"]);
        check_refused(json!({"access_paths": "@x"}), &["`@x`", "`@r`"]);
        check_refused(json!({"access_paths": 1}), &["must be a text such as `@r`"]);
        let at_least_1 = "must be a whole number of at least 1, is ";
        check_refused(json!({"batch_tokens": 0}), &[at_least_1, "`0`"]);
        check_refused(json!({"batch_size": "x"}), &[at_least_1, "the text `x`"]);
    }
}
