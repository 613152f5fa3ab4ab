//! The configuration of the text classifier: the keys under `uses_with:`.

use std::num::NonZeroUsize;

use flow_core::AccessPaths;
use flow_inference::{UnsupportedPrecision, back_end, check_score_precision};
use flow_kernels::InstructionSet;
use flow_models::{DeviceSpec, EncoderOptions, Precision};
use serde::Deserialize;

/// The configuration of the text classifier.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TextClassifierConfig {
    /// A folder, or the name of a model on the Hugging Face hub, with a classification head. Required.
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

    /// Number of labels whose scores a document gets, the best ones, unless a request asks for another number. Default: all.
    #[serde(alias = "limit")]
    pub top_k: Option<NonZeroUsize>,

    /// Whether scores are as the model gives them, instead of from 0 to 1, unless a request says otherwise.
    pub raw_scores: bool,

    /// Name of the tag that gets the label with the best score. Default: `label`; `null` sets no tag.
    pub label_tag: Option<String>,

    /// Maximum tokens of a text, or of a pair of texts, including special tokens. Default: the model's limit.
    #[serde(alias = "max_seq_length")]
    pub max_length: Option<NonZeroUsize>,

    /// Maximum tokens of a batch. It limits memory and does not change the scores. Default: 2048 on the CPU; on a GPU, as its free
    /// memory allows.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Maximum texts of a batch. It does not change the scores. Default: 64 on the CPU; on a GPU, as many as `batch_tokens` allows.
    #[serde(alias = "default_batch_size")]
    pub batch_size: Option<NonZeroUsize>,

    /// Numeric precision: `f32`, `bf16`, `int8` or `auto` on the CPU, and `f32`, `tf32`, `f16`, `bf16` or `auto` on a GPU. Default: 32-bit
    /// floats on the CPU, and half precision on a GPU.
    pub precision: Option<Precision>,

    /// The best CPU instruction set that may be used, such as `avx2`. Default: the best that the machine has.
    #[serde(deserialize_with = "back_end::deserialize")]
    pub back_end: Option<InstructionSet>,

    /// The documents to classify, such as `@r`, `@c` or `@r,c`.
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

impl Default for TextClassifierConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            revision: None,
            device: DeviceSpec::default(),
            top_k: None,
            raw_scores: false,
            label_tag: Some("label".to_owned()),
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
pub enum InvalidClassifierConfig {
    /// There is no model.
    #[error(
        "`model` is missing: give a folder, or the name of a classifier on the Hugging Face hub, such as `SamLowe/roberta-base-go_emotions`"
    )]
    NoModel,
    /// The device does not support the precision.
    #[error(transparent)]
    Precision(#[from] UnsupportedPrecision),
}

impl TextClassifierConfig {
    /// Checks the options that do not depend on the model.
    ///
    /// # Errors
    ///
    /// If the model is missing, or an option is not supported.
    pub fn check(&self) -> Result<(), InvalidClassifierConfig> {
        if self.model.is_empty() {
            return Err(InvalidClassifierConfig::NoModel);
        }
        Ok(check_score_precision(self.device, self.precision)?)
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
    use crate::TextClassifierExecutor;

    fn parse(with: Value) -> Result<TextClassifierConfig, String> {
        let bad = check_options::<TextClassifierExecutor>(with.as_object().unwrap());
        match bad.as_slice() {
            [] => Ok(serde_json::from_value(with).unwrap()),
            bad => Err(bad.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn only_the_model_is_required() {
        let config = TextClassifierConfig {
            model: "a/b".to_owned(),
            ..TextClassifierConfig::default()
        };
        assert_eq!(parse(json!({"model_name_or_path": "a/b"})), Ok(config));
        let config = parse(json!({"model": "a/b", "label_tag": null, "access_paths": "@c"}));
        assert_eq!(config.unwrap().label_tag, None);
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
                json!({"model": "a/b", "device": "cuda", "precision": "int8"}),
                &["only the CPU", "`device: cpu`"],
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
