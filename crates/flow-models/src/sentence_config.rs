//! Reads the files in which sentence-transformers stores how a model turns texts into vectors.
//!
//! `modules.json` lists the modules of a model, and each module may have a `config.json`. A folder without these files
//! gets the defaults of sentence-transformers: the mean of all tokens, not normalized. An unsupported module is an error,
//! because vectors without it would look plausible and be wrong.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::pooling::{PoolingConfig, PoolingMode};

/// The settings that a model's authors chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SentenceConfig {
    /// How hidden states are pooled.
    pub pooling: PoolingConfig,
    /// Whether vectors are normalized to length 1.
    pub normalize: bool,
    /// Maximum tokens of a text.
    pub max_length: Option<usize>,
    /// Whether texts are lower-cased before they are tokenized.
    pub lower_case: bool,
    /// Prompts by name. A prompt is put before each text.
    pub prompts: BTreeMap<String, String>,
    /// Name of the prompt that is used by default.
    pub default_prompt: Option<String>,
    /// Whether the model gives sparse vectors.
    pub is_sparse: bool,
}

/// The model's files are invalid, or ask for something unsupported.
#[derive(Debug, thiserror::Error)]
pub enum SentenceConfigError {
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file has an unexpected format.
    #[error("`{path}` does not have the format of sentence-transformers")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where it deviates.
        #[source]
        source: serde_json::Error,
    },
    /// An unsupported module.
    #[error(
        "the model has a module of type `{0}`, which is not supported yet; supported are `Transformer`, `Pooling` and `Normalize`, and \
         for sparse vectors `MLMTransformer` and `SpladePooling`"
    )]
    Module(String),
    /// A setting of `SpladePooling` that is not supported.
    #[error("`{key}` in `{path}` is `{found}`, which is not supported yet; only `{supported}` is")]
    SpladePooling {
        /// The file.
        path: PathBuf,
        /// The setting.
        key: &'static str,
        /// Its value.
        found: String,
        /// The supported value.
        supported: &'static str,
    },
}

/// An entry of `modules.json`.
#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// The relevant part of `config_sentence_transformers.json`.
#[derive(Default, Deserialize)]
struct PromptsFile {
    #[serde(default)]
    prompts: BTreeMap<String, String>,
    #[serde(default)]
    default_prompt_name: Option<String>,
}

/// The relevant part of `sentence_bert_config.json`.
#[derive(Default, Deserialize)]
struct TransformerFile {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// The relevant part of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct TokenizerFile {
    // A float, because "no limit" is stored as 1e30.
    model_max_length: Option<f64>,
}

/// The relevant part of the `config.json` of `SpladePooling`.
#[derive(Default, Deserialize)]
struct SpladeFile {
    pooling_strategy: Option<String>,
    activation_function: Option<String>,
}

impl SpladeFile {
    /// Checks that it asks for the largest score of each word, and for the weight that [`SparseEncoder`](crate::SparseEncoder) gives it.
    fn check(self, path: &Path) -> Result<(), SentenceConfigError> {
        for (key, value, supported) in [
            ("pooling_strategy", self.pooling_strategy, "max"),
            ("activation_function", self.activation_function, "relu"),
        ] {
            if let Some(found) = value.filter(|value| value != supported) {
                return Err(SentenceConfigError::SpladePooling {
                    path: path.to_owned(),
                    key,
                    found,
                    supported,
                });
            }
        }
        Ok(())
    }
}

/// One mode or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Modes {
    One(PoolingMode),
    Several(Vec<PoolingMode>),
}

/// `1_Pooling/config.json`: the name of a mode since version 5, a flag for each mode before that.
#[derive(Deserialize)]
#[serde(default)]
struct PoolingFile {
    pooling_mode: Option<Modes>,
    pooling_mode_cls_token: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
    include_prompt: bool,
}

impl Default for PoolingFile {
    fn default() -> Self {
        Self {
            pooling_mode: None,
            pooling_mode_cls_token: false,
            pooling_mode_max_tokens: false,
            pooling_mode_mean_tokens: false,
            pooling_mode_mean_sqrt_len_tokens: false,
            pooling_mode_weightedmean_tokens: false,
            pooling_mode_lasttoken: false,
            include_prompt: true,
        }
    }
}

impl PoolingFile {
    /// The modes whose flags are set, in the order in which sentence-transformers concatenates them.
    fn flagged_modes(&self) -> Vec<PoolingMode> {
        let flags = [
            (self.pooling_mode_cls_token, PoolingMode::Cls),
            (self.pooling_mode_max_tokens, PoolingMode::Max),
            (self.pooling_mode_mean_tokens, PoolingMode::Mean),
            (
                self.pooling_mode_mean_sqrt_len_tokens,
                PoolingMode::MeanSqrtLen,
            ),
            (
                self.pooling_mode_weightedmean_tokens,
                PoolingMode::WeightedMean,
            ),
            (self.pooling_mode_lasttoken, PoolingMode::LastToken),
        ];
        flags
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, mode)| mode)
            .collect()
    }
}

impl From<PoolingFile> for PoolingConfig {
    fn from(file: PoolingFile) -> Self {
        let includes_prompt = file.include_prompt;
        let modes = match file.pooling_mode {
            Some(Modes::One(mode)) => vec![mode],
            Some(Modes::Several(ref modes)) => modes.clone(),
            None => file.flagged_modes(),
        };
        let modes = if modes.is_empty() {
            Self::default().modes
        } else {
            modes
        };
        Self {
            modes,
            includes_prompt,
        }
    }
}

impl SentenceConfig {
    /// Reads the files in `folder`.
    ///
    /// # Errors
    ///
    /// If a file is invalid or asks for something unsupported.
    pub(crate) fn read(folder: &Path) -> Result<Self, SentenceConfigError> {
        let mut config = Self::default();
        for module in read::<Vec<ModuleEntry>>(&folder.join("modules.json"))?.unwrap_or_default() {
            config.add_module(folder, &module)?;
        }
        let transformer: TransformerFile =
            read(&folder.join("sentence_bert_config.json"))?.unwrap_or_default();
        let tokenizer: TokenizerFile =
            read(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
        config.max_length = transformer
            .max_seq_length
            .or(tokenizer.model_max_length.and_then(finite));
        config.lower_case = transformer.do_lower_case;
        let prompts: PromptsFile =
            read(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
        config.default_prompt = prompts.default_prompt_name;
        config.prompts = prompts.prompts;
        Ok(config)
    }

    fn add_module(
        &mut self,
        folder: &Path,
        module: &ModuleEntry,
    ) -> Result<(), SentenceConfigError> {
        // The type is the path of a Python class, whose module has changed over time.
        match module.kind.rsplit('.').next() {
            Some("Transformer") => {}
            Some("MLMTransformer") => self.is_sparse = true,
            Some("SpladePooling") => {
                let file = folder.join(&module.path).join("config.json");
                read::<SpladeFile>(&file)?
                    .unwrap_or_default()
                    .check(&file)?;
                self.is_sparse = true;
            }
            Some("Normalize") => self.normalize = true,
            Some("Pooling") => {
                let file = folder.join(&module.path).join("config.json");
                self.pooling = read::<PoolingFile>(&file)?.unwrap_or_default().into();
            }
            _ => return Err(SentenceConfigError::Module(module.kind.clone())),
        }
        Ok(())
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked just before"
)]
fn finite(length: f64) -> Option<usize> {
    (1.0..1e9).contains(&length).then_some(length as usize)
}

/// Reads a JSON file. `None` if there is no such file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, SentenceConfigError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(SentenceConfigError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let parsed = serde_json::from_slice(&text);
    parsed
        .map(Some)
        .map_err(|source| SentenceConfigError::Syntax {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_pooling(file: &str, expected: &[PoolingMode]) {
        let file: PoolingFile = serde_json::from_str(file).unwrap();
        assert_eq!(PoolingConfig::from(file).modes, expected);
    }

    #[test]
    fn pooling_modes_are_read_in_the_old_and_the_new_format() {
        check_pooling(r#"{"pooling_mode_cls_token": true}"#, &[PoolingMode::Cls]);
        check_pooling(
            r#"{"pooling_mode": "lasttoken"}"#,
            &[PoolingMode::LastToken],
        );
        check_pooling(
            r#"{"pooling_mode": "mean_sqrt_len_tokens"}"#,
            &[PoolingMode::MeanSqrtLen],
        );
        check_pooling(r#"{"word_embedding_dimension": 4}"#, &[PoolingMode::Mean]);
        check_pooling(
            r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}"#,
            &[PoolingMode::Cls, PoolingMode::Mean],
        );
        check_pooling(
            r#"{"pooling_mode": ["max", "mean"]}"#,
            &[PoolingMode::Max, PoolingMode::Mean],
        );
    }

    #[test]
    fn a_folder_without_files_gets_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            SentenceConfig::read(folder.path()).unwrap(),
            SentenceConfig::default()
        );
    }

    #[test]
    fn an_unsupported_module_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let modules = r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
        fs::write(folder.path().join("modules.json"), modules).unwrap();
        let error = SentenceConfig::read(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("`sentence_transformers.models.Dense`"),
            "{error}"
        );
    }

    #[test]
    fn a_huge_tokenizer_limit_means_no_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokenizer_config.json");
        for (text, expected) in [
            ("512", Some(512)),
            ("1000000000000000019884624838656", None),
        ] {
            fs::write(&file, format!(r#"{{"model_max_length": {text}}}"#)).unwrap();
            assert_eq!(
                SentenceConfig::read(folder.path()).unwrap().max_length,
                expected
            );
        }
    }
}
