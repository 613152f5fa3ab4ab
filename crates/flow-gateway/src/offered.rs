//! What a node's executor says of itself: its endpoints and their parameters. It holds only as long as the
//! executor is the same.
//!
//! A node that does not offer an endpoint passes the documents on without being called. What is not known
//! is taken to be offered: an executor gives a request back unchanged where it has nothing to do.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use flow_core::parameters::Accepted;
use flow_core::{Endpoint, discovery};
use flow_proto::jina::EndpointsProto;

use crate::accepts::NodeAccepts;

/// What is known of a node.
#[derive(Debug, Default)]
pub(crate) struct Offered(RwLock<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// Each endpoint and the parameters that it accepts. Empty: the executor does not tell.
    endpoints: HashMap<String, Option<Arc<Accepted>>>,
    /// Of the replicas that said so; see `flow_net::Pool::generation`.
    generation: u64,
}

impl Offered {
    /// Takes what an executor said. One that names no endpoint at all has said nothing.
    pub(crate) fn learn(&self, said: &EndpointsProto, generation: u64) {
        let endpoint = |endpoint: &String| {
            let accepted = discovery::accepted(said, endpoint);
            (endpoint.clone(), accepted.map(Arc::new))
        };
        let known = Known {
            endpoints: said.endpoints.iter().map(endpoint).collect(),
            generation,
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    /// Whether it is known that this endpoint is not offered.
    pub(crate) fn lacks(&self, endpoint: &str, generation: impl FnOnce() -> u64) -> bool {
        if endpoint.is_empty() || endpoint == Endpoint::DRY_RUN {
            return false;
        }
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| {
            known.tells() && known.find(endpoint).is_none() && known.generation == generation()
        })
    }

    /// The parameters that are accepted at an endpoint; none: nothing is known of executors of this
    /// generation.
    pub(crate) fn accepts(&self, endpoint: &str, generation: u64) -> Option<NodeAccepts> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|it| it.generation == generation)?;
        if !known.tells() {
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
    fn tells(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// What answers the endpoint: its own method or the default one.
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

    fn said(endpoints: &[&str]) -> EndpointsProto {
        EndpointsProto {
            endpoints: endpoints.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        }
    }

    #[track_caller]
    fn check(offers: &[&str], endpoint: &str, lacks: bool) {
        let offered = Offered::default();
        offered.learn(&said(offers), 7);
        assert_eq!(
            offered.lacks(endpoint, || 7),
            lacks,
            "{offers:?} {endpoint}"
        );
    }

    #[test]
    fn an_endpoint_is_lacking_if_neither_it_nor_the_default_is_offered() {
        check(&["/index"], "/search", true);
        check(&["/index"], "/index", false);
        check(&["/index", "/default"], "/search", false);
        check(&["/index"], "_jina_dry_run_", false);
        check(&["/index"], "", false);
        check(&[], "/search", false);
    }

    #[test]
    fn what_is_not_known_is_not_lacking() {
        assert!(!Offered::default().lacks("/search", || 0));
    }

    #[test]
    fn a_replica_that_came_back_may_offer_something_else() {
        let offered = Offered::default();
        offered.learn(&said(&["/index"]), 7);
        assert!(!offered.lacks("/search", || 8));
        assert_eq!(offered.accepts("/search", 8), None);
    }

    #[test]
    fn an_endpoint_accepts_what_its_method_or_the_default_one_accepts() {
        let only = |names: &[&str]| {
            let accepted = names.iter().copied().collect();
            Some(NodeAccepts::Only(Arc::new(accepted)))
        };
        let schemas = json!({
            "/index": { "parameters": { "accepts": [] } },
            "/default": { "parameters": { "accepts": ["batch_size"] } },
        });
        let offered = Offered::default();
        assert_eq!(offered.accepts("/index", 7), None);
        offered.learn(
            &EndpointsProto {
                schemas: Some(to_struct(schemas.as_object().unwrap())),
                ..said(&["/index", "/default", "/mute"])
            },
            7,
        );
        assert_eq!(offered.accepts("/index", 7), only(&[]));
        assert_eq!(offered.accepts("/encode", 7), only(&["batch_size"]));
        assert_eq!(offered.accepts("/mute", 7), Some(NodeAccepts::Anything));
        offered.learn(&said(&["/index"]), 7);
        assert_eq!(offered.accepts("/encode", 7), Some(NodeAccepts::NotCalled));
        offered.learn(&said(&[]), 7);
        assert_eq!(offered.accepts("/encode", 7), Some(NodeAccepts::Anything));
    }
}
