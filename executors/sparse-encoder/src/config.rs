//! The configuration of the sparse encoder: the keys under `uses_with:`.

use std::num::NonZeroUsize;

use flow_core::AccessPaths;
use flow_inference::{NotOnCpu, back_end, check_cpu_only};
use flow_kernels::InstructionSet;
use flow_models::{DeviceSpec, EncoderOptions, Precision};
use serde::Deserialize;

/// The configuration of the sparse encoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SparseEncoderConfig {
    /// A folder, or the name of a model on the Hugging Face hub, with a head for masked words: a SPLADE model. Required.
    #[serde(
        alias = "pretrained_model_name_or_path",
        alias = "model_name",
        alias = "model_name_or_path"
    )]
    pub model: String,

    /// Branch, tag or commit of the model. Default: `main`.
    pub revision: Option<String>,

    /// The device: `cpu`, or `auto`, which is the CPU.
    pub device: DeviceSpec,

    /// Number of weights that a vector keeps, the largest ones, unless a request asks for another number. Default: all.
    #[serde(alias = "limit")]
    pub top_k: Option<NonZeroUsize>,

    /// Name of the tag that gets the vector. Default: `sparse_embedding`.
    pub tag: String,

    /// Maximum tokens of a text, including special tokens. Default: the model's limit.
    #[serde(alias = "max_seq_length")]
    pub max_length: Option<NonZeroUsize>,

    /// Maximum tokens of a batch. It limits memory and does not change the vectors. Default: 2048.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Maximum texts of a batch. It does not change the vectors. Default: 64.
    #[serde(alias = "default_batch_size")]
    pub batch_size: Option<NonZeroUsize>,

    /// Numeric precision: `f32`, `bf16`, `int8` or `auto`. Default: 32-bit floats.
    pub precision: Option<Precision>,

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

    /// Number of threads. Default: one for each core.
    #[serde(alias = "num_threads")]
    pub threads: Option<NonZeroUsize>,
}

impl Default for SparseEncoderConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            revision: None,
            device: DeviceSpec::default(),
            top_k: None,
            tag: "sparse_embedding".to_owned(),
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

/// An option is missing, or not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSparseConfig {
    /// There is no model.
    #[error(
        "`model` is missing: give a folder, or the name of a SPLADE model on the Hugging Face hub, such as \
         `naver/splade-cocondenser-ensembledistil`"
    )]
    NoModel,
    /// The device or the precision is not supported.
    #[error(transparent)]
    NotOnCpu(#[from] NotOnCpu),
}

impl SparseEncoderConfig {
    /// Checks the options that do not depend on the model.
    ///
    /// # Errors
    ///
    /// If the model is missing, or an option is not supported.
    pub fn check(&self) -> Result<(), InvalidSparseConfig> {
        if self.model.is_empty() {
            return Err(InvalidSparseConfig::NoModel);
        }
        Ok(check_cpu_only(self.device, self.precision)?)
    }

    /// The options of the model among them.
    pub(crate) fn model_options(&self) -> EncoderOptions {
        EncoderOptions {
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
    use crate::SparseEncoderExecutor;

    fn parse(with: Value) -> Result<SparseEncoderConfig, String> {
        let bad = check_options::<SparseEncoderExecutor>(with.as_object().unwrap());
        match bad.as_slice() {
            [] => Ok(serde_json::from_value(with).unwrap()),
            bad => Err(bad.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn only_the_model_is_required() {
        let config = SparseEncoderConfig {
            model: "a/b".to_owned(),
            ..SparseEncoderConfig::default()
        };
        assert_eq!(parse(json!({"model_name_or_path": "a/b"})), Ok(config));
        let config = parse(json!({"model": "a/b", "tag": "words", "access_paths": "@c"}));
        assert_eq!(config.unwrap().tag, "words");
    }

    #[test]
    fn what_is_missing_or_unsupported_is_refused_with_the_remedy() {
        for (with, parts) in [
            (
                json!({}),
                &["`model` is missing", "the Hugging Face hub"][..],
            ),
            (json!({"modle": "a/b"}), &["did you mean `model`?"]),
            (
                json!({"model": "a/b", "device": "cuda"}),
                &["on the CPU only", "`device: cpu`"],
            ),
            (
                json!({"model": "a/b", "precision": "f16"}),
                &["`f16`", "`bf16`"],
            ),
            (json!({"model": "a/b", "top_k": 0}), &["at least 1", "`0`"]),
        ] {
            let error = parse(with).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} does not contain {part:?}");
            }
        }
    }
}
