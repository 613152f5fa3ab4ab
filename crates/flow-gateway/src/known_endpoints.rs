//! The endpoints and parameters that a node's executor reports, valid while it is the same executor.
//!
//! A node that does not offer an endpoint is not called, and passes its documents on. An executor that has not
//! answered yet counts as offering every endpoint: it returns a request unchanged if it has nothing to do.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use flow_core::parameters::Accepted;
use flow_core::{DocArrayVersion, Endpoint, Models, discovery};
use flow_proto::jina::EndpointsProto;

/// The endpoints of one node, if they are known.
#[derive(Debug, Default)]
pub(crate) struct KnownEndpoints(RwLock<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// Each endpoint and the parameters that it accepts. Empty if the executor does not name any.
    endpoints: HashMap<String, Option<Arc<Accepted>>>,
    /// The whole answer.
    offered: Arc<EndpointsProto>,
    /// The models of the executor.
    models: Arc<KnownModels>,
    /// The generation of the replicas that named them; see `flow_net::Pool::generation`.
    generation: u64,
}

/// What an executor reports about its models.
#[derive(Debug, Default)]
pub(crate) struct KnownModels {
    /// Its models, by endpoint.
    pub(crate) models: Models,
    /// The format that its documents must have; `None` if it takes any.
    pub(crate) version: Option<DocArrayVersion>,
}

/// The parameters that a node accepts in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeAccepts {
    /// The executor does not say.
    Anything,
    Only(Arc<Accepted>),
    /// The node is not called.
    NotCalled,
}

impl KnownEndpoints {
    /// Stores what an executor answered. An answer without any endpoint says nothing.
    pub(crate) fn set(&self, offered: &EndpointsProto, generation: u64) {
        let endpoint = |endpoint: &String| {
            let accepted = discovery::accepted(offered, endpoint);
            (endpoint.clone(), accepted.map(Arc::new))
        };
        let known = Known {
            endpoints: offered.endpoints.iter().map(endpoint).collect(),
            offered: Arc::new(offered.clone()),
            models: Arc::new(KnownModels {
                models: discovery::models(offered),
                version: discovery::docarray_version(offered),
            }),
            generation,
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    /// What executors of this generation answered, if they did.
    pub(crate) fn offered(&self, generation: u64) -> Option<Arc<EndpointsProto>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|it| it.generation == generation)?;
        Some(known.offered.clone())
    }

    /// The models of the executor, by endpoint; `None` until it has said which. They stay known while its replicas are
    /// replaced, because a new replica runs the same models.
    pub(crate) fn models(&self) -> Option<Arc<KnownModels>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|known| known.has_names());
        known.map(|known| known.models.clone())
    }

    /// Whether the executor has said that it offers this endpoint by its name.
    pub(crate) fn names(&self, endpoint: &str) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref();
        known.is_some_and(|known| known.endpoints.contains_key(endpoint))
    }

    /// Whether the node is known not to offer this endpoint.
    pub(crate) fn lacks(&self, endpoint: &str, generation: impl FnOnce() -> u64) -> bool {
        if endpoint.is_empty() || endpoint == Endpoint::DRY_RUN {
            return false;
        }
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| {
            known.has_names() && known.find(endpoint).is_none() && known.generation == generation()
        })
    }

    /// The parameters that an endpoint accepts; `None` if nothing is known of executors of this generation.
    pub(crate) fn accepts(&self, endpoint: &str, generation: u64) -> Option<NodeAccepts> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|it| it.generation == generation)?;
        if !known.has_names() {
            return Some(NodeAccepts::Anything);
        }
        Some(match known.find(endpoint) {
            None => NodeAccepts::NotCalled,
            Some(None) => NodeAccepts::Anything,
            Some(Some(accepted)) => NodeAccepts::Only(accepted.clone()),
        })
    }
}

impl Known {
    fn has_names(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// The endpoint itself, or else the default one.
    fn find(&self, endpoint: &str) -> Option<&Option<Arc<Accepted>>> {
        let own = self.endpoints.get(endpoint);
        own.or_else(|| self.endpoints.get(Endpoint::DEFAULT))
    }
}

#[cfg(test)]
mod tests {
    use flow_core::to_struct;
    use serde_json::json;

    use super::*;

    fn offering(endpoints: &[&str]) -> EndpointsProto {
        EndpointsProto {
            endpoints: endpoints.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        }
    }

    #[track_caller]
    fn check(offers: &[&str], endpoint: &str, lacks: bool) {
        let known = KnownEndpoints::default();
        known.set(&offering(offers), 7);
        assert_eq!(known.lacks(endpoint, || 7), lacks, "{offers:?} {endpoint}");
    }

    #[test]
    fn an_endpoint_is_missing_if_neither_it_nor_the_default_is_offered() {
        check(&["/index"], "/search", true);
        check(&["/index"], "/index", false);
        check(&["/index", "/default"], "/search", false);
        check(&["/index"], "_jina_dry_run_", false);
        check(&["/index"], "", false);
        check(&[], "/search", false);
    }

    #[test]
    fn unknown_endpoints_count_as_offered() {
        assert!(!KnownEndpoints::default().lacks("/search", || 0));
    }

    #[test]
    fn endpoints_of_an_earlier_generation_are_not_used() {
        let known = KnownEndpoints::default();
        known.set(&offering(&["/index"]), 7);
        assert!(!known.lacks("/search", || 8));
        assert_eq!(known.accepts("/search", 8), None);
    }

    #[test]
    fn an_endpoint_accepts_the_parameters_of_its_method_or_of_the_default_one() {
        let only = |names: &[&str]| {
            let accepted = names.iter().copied().collect();
            Some(NodeAccepts::Only(Arc::new(accepted)))
        };
        let schemas = json!({
            "/index": { "parameters": { "accepts": [] } },
            "/default": { "parameters": { "accepts": ["batch_size"] } },
        });
        let known = KnownEndpoints::default();
        assert_eq!(known.accepts("/index", 7), None);
        known.set(
            &EndpointsProto {
                schemas: Some(to_struct(schemas.as_object().unwrap())),
                ..offering(&["/index", "/default", "/mute"])
            },
            7,
        );
        assert_eq!(known.accepts("/index", 7), only(&[]));
        assert_eq!(known.accepts("/encode", 7), only(&["batch_size"]));
        assert_eq!(known.accepts("/mute", 7), Some(NodeAccepts::Anything));
        known.set(&offering(&["/index"]), 7);
        assert_eq!(known.accepts("/encode", 7), Some(NodeAccepts::NotCalled));
        known.set(&offering(&[]), 7);
        assert_eq!(known.accepts("/encode", 7), Some(NodeAccepts::Anything));
    }
}
