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
    /// The names of its models.
    pub(super) models: Vec<String>,
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
        models: Vec<String>,
        keys: KeysFor,
    ) -> Self {
        Self {
            tokenizes: offered.names().contains(TOKENIZE),
            decodes: offered.names().contains(DECODE),
            options,
            offered,
            models,
            keys,
        }
    }

    /// Whether `POST` at this path of an API for models is answered by that API: there is a model, and no executor without
    /// one offers an endpoint of this name.
    pub(super) fn has(&self, path: &str) -> bool {
        let is_endpoint = self.offered.names().contains(path) && !self.offered.has_models();
        !self.models.is_empty() && !is_endpoint
    }
}
