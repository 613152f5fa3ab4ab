//! The configuration of the reranker: the keys under `uses_with:`.

use std::num::NonZeroUsize;

use flow_core::AccessPaths;
use flow_inference::{UnsupportedPrecision, back_end, check_score_precision};
use flow_kernels::InstructionSet;
use flow_models::{DeviceSpec, EncoderOptions, Precision};
use serde::Deserialize;

/// The model of a reranker that does not say which one: trained on the questions of MS MARCO (Nguyen et al., 2016).
const DEFAULT_MODEL: &str = "cross-encoder/ms-marco-MiniLM-L6-v2";

/// The configuration of the reranker. The option names of sentence-transformers' `CrossEncoder` are accepted as aliases.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RerankerConfig {
    /// A folder, or the name of a model on the Hugging Face hub: a cross-encoder with one score.
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

    /// Number of matches that each document with a text keeps, unless a request asks for another one. Default: all.
    #[serde(alias = "limit")]
    pub top_k: Option<usize>,

    /// Whether scores are as the model gives them, instead of from 0 to 1, unless a request says otherwise.
    pub raw_scores: bool,

    /// Maximum tokens of a document's text with that of a match, including special tokens. Default: the model's limit.
    #[serde(alias = "max_seq_length")]
    pub max_length: Option<NonZeroUsize>,

    /// Maximum tokens of a batch. It limits memory and does not change the scores. Default: 2048 on the CPU; on a GPU, as its free
    /// memory allows.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Maximum pairs of a batch. It does not change the scores. Default: 64 on the CPU; on a GPU, as many as `batch_tokens` allows.
    #[serde(alias = "default_batch_size")]
    pub batch_size: Option<NonZeroUsize>,

    /// Numeric precision: `f32`, `bf16`, `int8` or `auto` on the CPU, and `f32`, `tf32`, `f16`, `bf16` or `auto` on a GPU. Default: 32-bit
    /// floats on the CPU, and half precision on a GPU.
    pub precision: Option<Precision>,

    /// The best CPU instruction set that may be used, such as `avx2`. Default: the best that the machine has.
    #[serde(deserialize_with = "back_end::deserialize")]
    pub back_end: Option<InstructionSet>,

    /// The documents whose matches are ordered, such as `@r`, `@c` or `@r,c`.
    #[serde(
        alias = "traversal_paths",
        alias = "default_traversal_paths",
        alias = "default_access_paths"
    )]
    pub access_paths: AccessPaths,

    /// Number of threads. Default: one for each core.
    #[serde(alias = "num_threads")]
    pub threads: Option<NonZeroUsize>,
}

impl Default for RerankerConfig {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            revision: None,
            device: DeviceSpec::default(),
            top_k: None,
            raw_scores: false,
            max_length: None,
            batch_tokens: None,
            batch_size: None,
            precision: None,
            back_end: None,
            access_paths: AccessPaths::default(),
            threads: None,
        }
    }
}

impl RerankerConfig {
    /// Checks the options that do not depend on the model.
    ///
    /// # Errors
    ///
    /// If one is not supported.
    pub fn check(&self) -> Result<(), UnsupportedPrecision> {
        check_score_precision(self.device, self.precision)
    }

    /// The options of the model among them.
    pub(crate) fn model_options(&self) -> EncoderOptions {
        EncoderOptions {
            device: self.device,
            max_length: self.max_length,
            precision: self.precision,
            back_end: self.back_end,
            threads: self.threads,
            batch_tokens: self.batch_tokens,
            batch_size: self.batch_size,
            ..EncoderOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_executor::check_options;
    use serde_json::{Value, json};

    use super::*;
    use crate::Reranker;

    fn parse(with: Value) -> Result<RerankerConfig, String> {
        let bad = check_options::<Reranker>(with.as_object().unwrap());
        match bad.as_slice() {
            [] => Ok(serde_json::from_value(with).unwrap()),
            bad => Err(bad.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn no_option_is_required() {
        assert_eq!(parse(json!({})), Ok(RerankerConfig::default()));
    }

    #[test]
    fn options_of_the_torch_cross_encoder_are_accepted() {
        let config = parse(json!({
            "model_name_or_path": "a/b", "max_length": 128, "device": "cpu", "default_traversal_paths": ["c"],
        }));
        let config = config.unwrap();
        assert_eq!(config.model, "a/b");
        assert_eq!(config.access_paths, "@c".parse().unwrap());
    }

    #[test]
    fn unsupported_values_are_refused_with_the_supported_ones() {
        for (with, parts) in [
            (json!({"modle": "a/b"}), &["did you mean `model`?"][..]),
            (json!({"device": "tpu"}), &["`tpu`", "`cpu`"]),
            (
                json!({"device": "cuda", "precision": "int8"}),
                &["only the CPU", "`device: cpu`"],
            ),
            (json!({"precision": "fast"}), &["`fast`", "`f32`", "`int8`"]),
            (json!({"precision": "f16"}), &["`f16`", "`bf16`"]),
            (json!({"top_k": -1}), &["at least 0", "`-1`"]),
            (json!({"access_paths": "@x"}), &["`@x`"]),
        ] {
            let error = parse(with).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} does not contain {part:?}");
            }
        }
    }
}
