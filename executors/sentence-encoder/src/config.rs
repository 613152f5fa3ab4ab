//! The configuration of the sentence encoder: the keys under `uses_with:`.

use std::num::NonZeroUsize;

use flow_core::{AccessPaths, EmbeddingType};
use flow_inference::back_end;
use flow_kernels::InstructionSet;
use flow_models::source::DEFAULT_MODEL;
use flow_models::{DeviceSpec, EncoderOptions, EngineKind, PoolingMode, Precision};
use serde::Deserialize;

use crate::cache::CacheConfig;

/// The configuration of the sentence encoder. The option names of Jina's TransformerTorchEncoder are accepted as aliases.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SentenceEncoderConfig {
    /// A folder, or the name of a model on the Hugging Face hub.
    #[serde(
        alias = "pretrained_model_name_or_path",
        alias = "model_name",
        alias = "model_name_or_path"
    )]
    pub model: String,

    /// Branch, tag or commit of the model. Default: `main`.
    pub revision: Option<String>,

    /// The device: `cpu`, `cuda`, `cuda:0`, `cuda:all`, `gpu`, or `auto`.
    pub device: DeviceSpec,

    /// How hidden states become one vector. Default: as the model's files say.
    #[serde(alias = "pooling_strategy")]
    pub pooling: Option<PoolingMode>,

    /// Whether vectors are normalized to length 1. Default: as the model's files say.
    #[serde(alias = "normalize_embeddings")]
    pub normalize: Option<bool>,

    /// Maximum tokens of a text, including special tokens. Default: the model's limit.
    #[serde(alias = "max_seq_length")]
    pub max_length: Option<NonZeroUsize>,

    /// Maximum tokens of a batch, including padding. It limits memory and does not change the vectors. Default: 2048 on the
    /// CPU; on a GPU, as its free memory allows.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Maximum texts of a batch. It does not change the vectors. Default: 64 on the CPU; on a GPU, as many as `batch_tokens`
    /// allows.
    #[serde(alias = "default_batch_size")]
    pub batch_size: Option<NonZeroUsize>,

    /// Numeric precision. Default: 32-bit floats on the CPU, whose vectors are the same on every machine, so that an index built
    /// on one machine can be searched from another; half precision on a GPU.
    pub precision: Option<Precision>,

    /// The engine that computes.
    pub engine: EngineKind,

    /// The best CPU instruction set that may be used, such as `avx2`. Default: the best that the machine has.
    #[serde(deserialize_with = "back_end::deserialize")]
    pub back_end: Option<InstructionSet>,

    /// The documents to encode, such as `@r`, `@c` or `@r,c`.
    #[serde(
        alias = "traversal_paths",
        alias = "default_traversal_paths",
        alias = "default_access_paths"
    )]
    pub access_paths: AccessPaths,

    /// Text put before each input, such as `query: `. Default: the model's default prompt.
    pub prompt: Option<String>,

    /// Name of one of the model's own prompts.
    pub prompt_name: Option<String>,

    /// Number of leading values to keep of each vector, before normalization (Matryoshka embeddings; Kusupati et al., 2022).
    /// Default: all.
    #[serde(alias = "truncate_dim")]
    pub dimensions: Option<NonZeroUsize>,

    /// The type of the vectors' values, unless a request asks for another one. Default: 32-bit floats.
    pub embedding_type: EmbeddingType,

    /// Number of threads. Default: one for each core.
    #[serde(alias = "num_threads")]
    pub threads: Option<NonZeroUsize>,

    /// Whether vectors are stored, so that a text is encoded once: `true`, a size in memory such as `512MiB`, or `size`, `path`
    /// of a folder on disk, and `disk_size`. Default: no. It does not change the vectors.
    pub cache: CacheConfig,

    /// An option of TransformerTorchEncoder. Only the model's own tokenizer is supported.
    pub base_tokenizer_model: Option<String>,

    /// An option of TransformerTorchEncoder. Only the last layer, -1, is supported.
    pub layer_index: i64,

    /// An option of TransformerTorchEncoder. Only `__call__` is supported.
    pub embedding_fn_name: String,
}

impl Default for SentenceEncoderConfig {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            revision: None,
            device: DeviceSpec::default(),
            pooling: None,
            normalize: None,
            max_length: None,
            batch_tokens: None,
            batch_size: None,
            precision: None,
            engine: EngineKind::default(),
            back_end: None,
            access_paths: AccessPaths::default(),
            prompt: None,
            prompt_name: None,
            dimensions: None,
            embedding_type: EmbeddingType::default(),
            threads: None,
            cache: CacheConfig::default(),
            base_tokenizer_model: None,
            layer_index: -1,
            embedding_fn_name: CALL.to_owned(),
        }
    }
}

/// The function that calls a PyTorch model itself.
const CALL: &str = "__call__";

/// An option is not supported, or contradicts another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEncoderConfig {
    /// A layer other than the last.
    #[error("`layer_index` is {0}, but only the last layer, -1, is supported")]
    Layer(i64),
    /// A function other than the model itself.
    #[error("`embedding_fn_name` is `{0}`, but only `{CALL}` is supported")]
    Function(String),
    /// The tokenizer of another model.
    #[error(
        "`base_tokenizer_model` is `{tokenizer}`, but only the tokenizer of `{model}` itself is supported"
    )]
    Tokenizer {
        /// The requested tokenizer.
        tokenizer: String,
        /// The model.
        model: String,
    },
    /// Two prompts.
    #[error("`prompt` and `prompt_name` are both set; set one of them")]
    Prompts,
}

impl SentenceEncoderConfig {
    /// Checks the options that do not depend on the model.
    ///
    /// # Errors
    ///
    /// If one is not supported, or contradicts another one.
    pub fn check(&self) -> Result<(), InvalidEncoderConfig> {
        if self.layer_index != -1 {
            return Err(InvalidEncoderConfig::Layer(self.layer_index));
        }
        if self.embedding_fn_name != CALL {
            return Err(InvalidEncoderConfig::Function(
                self.embedding_fn_name.clone(),
            ));
        }
        if self.prompt.is_some() && self.prompt_name.is_some() {
            return Err(InvalidEncoderConfig::Prompts);
        }
        match &self.base_tokenizer_model {
            Some(tokenizer) if *tokenizer != self.model => Err(InvalidEncoderConfig::Tokenizer {
                tokenizer: tokenizer.clone(),
                model: self.model.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The options of the text encoder among them.
    #[must_use]
    pub fn encoder_options(&self) -> EncoderOptions {
        EncoderOptions {
            device: self.device,
            pooling: self.pooling,
            normalize: self.normalize,
            max_length: self.max_length,
            dimensions: self.dimensions,
            prompt: self.prompt.clone(),
            prompt_name: self.prompt_name.clone(),
            engine: self.engine,
            precision: self.precision,
            back_end: self.back_end,
            threads: self.threads,
            batch_tokens: self.batch_tokens,
            batch_size: self.batch_size,
            cache_folder: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_executor::check_options;
    use serde_json::{Value, json};

    use super::*;
    use crate::SentenceEncoder;

    fn parse(with: Value) -> Result<SentenceEncoderConfig, String> {
        let bad = check_options::<SentenceEncoder>(with.as_object().unwrap());
        match bad.as_slice() {
            [] => Ok(serde_json::from_value(with).unwrap()),
            bad => Err(bad.iter().map(ToString::to_string).collect()),
        }
    }

    #[track_caller]
    fn check_refused(config: Value, parts: &[&str]) {
        let error = parse(config).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{error:?} does not contain {part:?}");
        }
    }

    #[test]
    fn no_option_is_required() {
        assert_eq!(parse(json!({})), Ok(SentenceEncoderConfig::default()));
    }

    #[test]
    fn options_of_the_torch_encoder_are_accepted() {
        let config = parse(json!({
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
        let config = config.unwrap();
        assert_eq!(config.model, "a/b");
        assert_eq!(config.pooling, Some(PoolingMode::Cls));
        assert_eq!(config.access_paths, "@r,c".parse().unwrap());
        assert_eq!(config.batch_size.map(NonZeroUsize::get), Some(16));
    }

    #[test]
    fn unsupported_values_are_refused_with_the_supported_ones() {
        check_refused(
            json!({"modle": "a/b"}),
            &["`modle` is not an option", "did you mean `model`?"],
        );
        check_refused(json!({"pooling": "meen"}), &["`meen`", "`mean`", "`cls`"]);
        check_refused(json!({"device": "tpu"}), &["`tpu`", "`cpu`"]);
        check_refused(
            json!({"precision": "f8"}),
            &["`f8`", "`f32`", "`bf16`", "`fast`", "`int8`", "`f16`"],
        );
        check_refused(
            json!({"embedding_type": "int4"}),
            &["`int4`", "`f16`", "`ubinary`"],
        );
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
