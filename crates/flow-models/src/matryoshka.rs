//! Which shorter vectors a model was trained for (Matryoshka embeddings; Kusupati et al., 2022).
//!
//! The first values of such a model's vectors are vectors themselves. Those of other models are not, so only a model
//! that says so in its `config.json` is cut at a client's wish: with `matryoshka_dimensions`, a list of lengths, or
//! `is_matryoshka: true`, any length. vLLM reads the same two fields.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::source::CONFIG_FILE;

/// The lengths to which a model's vectors may be cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Matryoshka {
    /// `None` if the model was not trained for it, or does not say so.
    #[default]
    No,
    /// Any.
    Any,
    /// These.
    Only(Vec<usize>),
}

#[derive(Default, Deserialize)]
struct MatryoshkaFields {
    #[serde(default)]
    is_matryoshka: bool,
    #[serde(default)]
    matryoshka_dimensions: Vec<usize>,
}

impl Matryoshka {
    /// Reads the `config.json` of a model. A field that is missing or has another type counts as empty.
    pub(crate) fn read(folder: &Path) -> Self {
        let text = fs::read(folder.join(CONFIG_FILE)).unwrap_or_default();
        let fields: MatryoshkaFields = serde_json::from_slice(&text).unwrap_or_default();
        match fields {
            MatryoshkaFields {
                matryoshka_dimensions,
                ..
            } if !matryoshka_dimensions.is_empty() => Self::Only(matryoshka_dimensions),
            MatryoshkaFields {
                is_matryoshka: true,
                ..
            } => Self::Any,
            MatryoshkaFields { .. } => Self::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, expected: &Matryoshka) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(CONFIG_FILE), config).unwrap();
        assert_eq!(Matryoshka::read(folder.path()), *expected, "{config}");
    }

    #[test]
    fn a_model_says_in_its_config_which_lengths_it_was_trained_for() {
        check("{}", &Matryoshka::No);
        check(r#"{"is_matryoshka": true}"#, &Matryoshka::Any);
        check(
            r#"{"matryoshka_dimensions": [32, 64]}"#,
            &Matryoshka::Only(vec![32, 64]),
        );
        check(r#"{"matryoshka_dimensions": "all"}"#, &Matryoshka::No);
    }
}
