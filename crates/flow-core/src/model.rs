//! What an executor reports about the model that it runs, so that a gateway can route requests by model and describe it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::EmbeddingType;

/// A model that an executor runs.
///
/// Executors say it in their discovery, in the description of the endpoint that the model computes. Readers ignore
/// fields that they do not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelInfo {
    /// Its name on the Hugging Face hub, or its folder.
    pub name: String,
    /// Branch, tag or commit of the model, if one was chosen.
    pub revision: Option<String>,
    /// What it makes of a document.
    pub kind: ModelKind,
    /// Number of values of a vector; 0 if the model makes none.
    pub dimensions: usize,
    /// Maximum tokens of a text, with special tokens. Longer texts are truncated.
    pub max_length: usize,
    /// How the states of tokens become one vector, such as `mean`; empty if the model makes no vectors.
    pub pooling: String,
    /// Whether vectors have length 1 if a request does not say otherwise.
    pub normalized: bool,
    /// The numeric precision, such as `f32`.
    pub precision: String,
    /// `cpu`, or the names of the GPUs that compute.
    pub device: String,
    /// The lengths to which vectors may be cut; see [`ShorterVectors`].
    pub shorter: ShorterVectors,
    /// The type of vectors if a request does not say otherwise with the parameter `embedding_type`. `None` if the
    /// executor has no such parameter.
    pub embedding_type: Option<EmbeddingType>,
    /// Whether it works on documents that are nested in those of a request, unless the parameter `access_paths` of the request
    /// says otherwise.
    pub reads_nested: bool,
    /// The names of the prompts that a request may choose with the parameter `prompt_name`.
    pub prompts: Vec<String>,
    /// The labels that a classifier gives scores, in the order of its outputs.
    pub labels: Vec<String>,
    /// The number of texts of a batch, at most.
    pub batch_texts: usize,
    /// The number of tokens of a batch, at most.
    pub batch_tokens: usize,
}

/// What a model makes of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A vector.
    Embedding,
    /// A sparse vector: a weight for each word that its text is about.
    SparseEmbedding,
    /// An order of its matches, by how well each answers its text.
    Reranker,
    /// A score for each label.
    Classifier,
    /// Something that this version does not know.
    #[default]
    #[serde(other)]
    Other,
}

/// Whether the first values of a model's vectors are vectors themselves (Matryoshka embeddings).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShorterVectors {
    /// They are not, or the model does not say so.
    #[default]
    No,
    /// Of any length.
    Any,
    /// Of these lengths.
    Only(Vec<usize>),
}

/// The models of an executor, by the endpoint that each computes.
pub type Models = BTreeMap<String, ModelInfo>;

impl ShorterVectors {
    /// Whether vectors may be cut to this length.
    #[must_use]
    pub fn allow(&self, dimensions: usize) -> bool {
        match self {
            Self::No => false,
            Self::Any => true,
            Self::Only(lengths) => lengths.contains(&dimensions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lengths_that_a_model_names_are_allowed() {
        assert!(!ShorterVectors::No.allow(64));
        assert!(ShorterVectors::Any.allow(64));
        let some = ShorterVectors::Only(vec![64, 128]);
        assert!(some.allow(64) && !some.allow(65));
    }

    #[test]
    fn a_description_of_a_later_version_is_read_as_far_as_it_is_known() {
        let later = serde_json::json!({"name": "m", "kind": "oracle", "colour": "red"});
        let read: ModelInfo = serde_json::from_value(later).unwrap();
        assert_eq!((read.name.as_str(), read.kind), ("m", ModelKind::Other));
    }
}
