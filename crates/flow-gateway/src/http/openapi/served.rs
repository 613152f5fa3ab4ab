//! What a flow serves, as far as its OpenAPI document depends on it.

use flow_spec::HttpOptions;

use crate::auth::KeysFor;
use crate::discovery::OfferedEndpoints;
use crate::http::tei::tokens::{DECODE, TOKENIZE};

/// What a flow serves.
#[derive(Debug)]
pub(super) struct Served<'s> {
    pub(super) options: &'s HttpOptions,
    pub(super) offered: &'s OfferedEndpoints,
    /// The names of its models that make vectors.
    pub(super) models: Vec<String>,
    /// The names of its rerankers.
    pub(super) rerankers: Vec<String>,
    /// Whether an executor makes tokens of texts, and texts of tokens.
    pub(super) tokenizes: bool,
    pub(super) decodes: bool,
    /// Which requests need an API key.
    pub(super) keys: KeysFor,
}

impl<'s> Served<'s> {
    pub(super) fn new(
        options: &'s HttpOptions,
        offered: &'s OfferedEndpoints,
        (models, rerankers): (Vec<String>, Vec<String>),
        keys: KeysFor,
    ) -> Self {
        Self {
            tokenizes: offered.names().contains(TOKENIZE),
            decodes: offered.names().contains(DECODE),
            options,
            offered,
            models,
            rerankers,
            keys,
        }
    }

    /// Whether `POST` at this path of an API for vectors is answered by that API.
    pub(super) fn has(&self, path: &str) -> bool {
        !self.models.is_empty() && !self.is_endpoint(path)
    }

    /// The same for an API for reranking.
    pub(super) fn reranks(&self, path: &str) -> bool {
        !self.rerankers.is_empty() && !self.is_endpoint(path)
    }

    /// The names of all models.
    pub(super) fn all_models(&self) -> Vec<&str> {
        let all = self.models.iter().chain(&self.rerankers);
        all.map(String::as_str).collect()
    }

    /// Whether an endpoint of an executor has the name of a route, and comes before it: no executor reports a model.
    fn is_endpoint(&self, path: &str) -> bool {
        self.offered.names().contains(path) && !self.offered.has_models()
    }
}
