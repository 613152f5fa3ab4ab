//! What a flow serves, as far as its OpenAPI document depends on it.

use flow_spec::HttpOptions;

use crate::auth::KeysFor;
use crate::discovery::OfferedEndpoints;
use crate::http::tei::embed_all::TOKEN_VECTORS;
use crate::http::tei::tokens::{DECODE, TOKENIZE};

/// The names of a flow's models, by what they make.
#[derive(Debug, Default)]
pub(super) struct ModelNames {
    /// Models that make vectors.
    pub(super) encoders: Vec<String>,
    pub(super) rerankers: Vec<String>,
    pub(super) classifiers: Vec<String>,
    /// Models that make sparse vectors.
    pub(super) sparse_encoders: Vec<String>,
}

/// What a flow serves.
#[derive(Debug)]
pub(super) struct Served<'s> {
    pub(super) options: &'s HttpOptions,
    pub(super) offered: &'s OfferedEndpoints,
    pub(super) models: ModelNames,
    /// Whether an executor makes tokens of texts, and texts of tokens.
    pub(super) tokenizes: bool,
    pub(super) decodes: bool,
    /// Whether an executor gives the vectors of tokens.
    pub(super) has_token_vectors: bool,
    /// Which requests need an API key.
    pub(super) keys: KeysFor,
}

impl<'s> Served<'s> {
    pub(super) fn new(
        options: &'s HttpOptions,
        offered: &'s OfferedEndpoints,
        models: ModelNames,
        keys: KeysFor,
    ) -> Self {
        Self {
            tokenizes: offered.names().contains(TOKENIZE),
            decodes: offered.names().contains(DECODE),
            has_token_vectors: offered.names().contains(TOKEN_VECTORS),
            options,
            offered,
            models,
            keys,
        }
    }

    /// Whether `POST` at this path of an API for vectors is answered by that API.
    pub(super) fn has(&self, path: &str) -> bool {
        !self.models.encoders.is_empty() && !self.is_endpoint(path)
    }

    /// The same for an API for reranking.
    pub(super) fn reranks(&self, path: &str) -> bool {
        !self.models.rerankers.is_empty() && !self.is_endpoint(path)
    }

    /// The same for an API for classification.
    pub(super) fn classifies(&self, path: &str) -> bool {
        !self.models.classifiers.is_empty() && !self.is_endpoint(path)
    }

    /// The same for an API for sparse vectors.
    pub(super) fn embeds_sparsely(&self, path: &str) -> bool {
        !self.models.sparse_encoders.is_empty() && !self.is_endpoint(path)
    }

    /// The names of all models.
    pub(super) fn all_models(&self) -> Vec<&str> {
        let ModelNames {
            encoders,
            rerankers,
            classifiers,
            sparse_encoders,
        } = &self.models;
        let all = [encoders, rerankers, classifiers, sparse_encoders];
        let all = all.into_iter().flatten();
        all.map(String::as_str).collect()
    }

    /// Whether an endpoint of an executor has the name of a route, and comes before it: no executor reports a model.
    fn is_endpoint(&self, path: &str) -> bool {
        self.offered.names().contains(path) && !self.offered.has_models()
    }
}
