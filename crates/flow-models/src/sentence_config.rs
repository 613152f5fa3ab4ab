//! What a model's own files say about how a text becomes its vector.
//!
//! sentence-transformers keeps that beside the weights: `modules.json` lists the steps, and each step
//! may have a `config.json`. A folder without these files gets what sentence-transformers would give
//! it: the mean of all tokens, not normalised. A step that we do not have is an error, because vectors
//! without it would look right and be wrong.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::pooling::{Pooling, PoolingMode};

/// How the model's authors mean it to be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// How the states of a text become its vector.
    pub pooling: Pooling,
    /// Whether vectors get the length 1.
    pub normalize: bool,
    /// The most tokens of a text that are read.
    pub max_length: Option<usize>,
    /// Whether texts are put in lower case before the tokenizer sees them.
    pub lower_case: bool,
    /// What can be put before a text, by name.
    pub prompts: BTreeMap<String, String>,
    /// The prompt that is used if none is named.
    pub default_prompt: Option<String>,
}

/// The model's files ask for something that we cannot do.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file says something else than it should.
    #[error("`{path}` is not what sentence-transformers writes")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A step that is not built.
    #[error(
        "the model has a step of type `{0}`, which is not built yet; there are `Transformer`, `Pooling` and `Normalize`"
    )]
    Step(String),
}

/// A line of `modules.json`.
#[derive(Deserialize)]
struct Step {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// `config_sentence_transformers.json`, as far as it concerns us.
#[derive(Default, Deserialize)]
struct Prompts {
    #[serde(default)]
    prompts: BTreeMap<String, String>,
    #[serde(default)]
    default_prompt_name: Option<String>,
}

/// `sentence_bert_config.json`, as far as it concerns us.
#[derive(Default, Deserialize)]
struct Input {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// `tokenizer_config.json`, as far as it concerns us.
#[derive(Default, Deserialize)]
struct TokenizerInput {
    // A float, because "no limit" is written as 1e30.
    model_max_length: Option<f64>,
}

/// One name or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Modes {
    One(PoolingMode),
    Several(Vec<PoolingMode>),
}

/// `1_Pooling/config.json`: a name since version 5, before that a switch for each mode.
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
    /// Several switches may be on; their order is the one in which sentence-transformers joins them.
    fn switched_on(&self) -> Vec<PoolingMode> {
        let switches = [
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
        switches
            .into_iter()
            .filter(|(on, _)| *on)
            .map(|(_, mode)| mode)
            .collect()
    }
}

impl From<PoolingFile> for Pooling {
    fn from(file: PoolingFile) -> Self {
        let includes_prompt = file.include_prompt;
        let modes = match file.pooling_mode {
            Some(Modes::One(mode)) => vec![mode],
            Some(Modes::Several(ref modes)) => modes.clone(),
            None => file.switched_on(),
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

impl Recipe {
    /// Reads the files in `folder`.
    ///
    /// # Errors
    ///
    /// If a file says what we cannot read or do.
    pub(crate) fn read(folder: &Path) -> Result<Self, RecipeError> {
        let mut recipe = Self::default();
        for step in read::<Vec<Step>>(&folder.join("modules.json"))?.unwrap_or_default() {
            recipe.add_step(folder, &step)?;
        }
        let input: Input = read(&folder.join("sentence_bert_config.json"))?.unwrap_or_default();
        let tokenizer: TokenizerInput =
            read(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
        recipe.max_length = input
            .max_seq_length
            .or(tokenizer.model_max_length.and_then(finite));
        recipe.lower_case = input.do_lower_case;
        let prompts: Prompts =
            read(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
        recipe.default_prompt = prompts.default_prompt_name;
        recipe.prompts = prompts.prompts;
        Ok(recipe)
    }

    fn add_step(&mut self, folder: &Path, step: &Step) -> Result<(), RecipeError> {
        // The type is a Python path, and the way to the class has changed over time.
        match step.kind.rsplit('.').next() {
            Some("Transformer") => {}
            Some("Normalize") => self.normalize = true,
            Some("Pooling") => {
                let file = folder.join(&step.path).join("config.json");
                self.pooling = read::<PoolingFile>(&file)?.unwrap_or_default().into();
            }
            _ => return Err(RecipeError::Step(step.kind.clone())),
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

/// The content of a file; nothing if there is no such file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecipeError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(RecipeError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let parsed = serde_json::from_slice(&text);
    parsed.map(Some).map_err(|source| RecipeError::Syntax {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_pooling(file: &str, wanted: &[PoolingMode]) {
        let file: PoolingFile = serde_json::from_str(file).unwrap();
        assert_eq!(Pooling::from(file).modes, wanted);
    }

    #[test]
    fn pooling_is_read_in_its_old_and_its_new_form() {
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
    fn a_folder_without_files_gets_the_mean_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Recipe::read(folder.path()).unwrap(), Recipe::default());
    }

    #[test]
    fn an_unknown_step_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let steps = r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
        fs::write(folder.path().join("modules.json"), steps).unwrap();
        let error = Recipe::read(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("`sentence_transformers.models.Dense`"),
            "{error}"
        );
    }

    #[test]
    fn a_tokenizer_without_a_limit_says_so_with_a_huge_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokenizer_config.json");
        for (text, wanted) in [
            ("512", Some(512)),
            ("1000000000000000019884624838656", None),
        ] {
            fs::write(&file, format!(r#"{{"model_max_length": {text}}}"#)).unwrap();
            assert_eq!(Recipe::read(folder.path()).unwrap().max_length, wanted);
        }
    }
}
