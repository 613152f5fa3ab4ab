//! Which endpoints a node's executor offers: known from the executor, and only as long as it is the same.
//!
//! A node that does not offer an endpoint passes the documents on without being called. What is not known
//! is taken to be offered: an executor gives a request back unchanged where it has nothing to do.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use flow_core::Endpoint;

/// What is known of a node.
#[derive(Debug, Default)]
pub(crate) struct Offered(RwLock<Option<Known>>);

#[derive(Debug)]
struct Known {
    endpoints: HashSet<String>,
    /// Of the replicas that said so; see `flow_net::Pool::generation`.
    generation: u64,
}

impl Offered {
    /// Takes what an executor said. One that names no endpoint at all has said nothing.
    pub(crate) fn learn(&self, endpoints: Vec<String>, generation: u64) {
        let known = (!endpoints.is_empty()).then(|| Known {
            endpoints: endpoints.into_iter().collect(),
            generation,
        });
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Whether it is known that this endpoint is not offered.
    pub(crate) fn lacks(&self, endpoint: &str, generation: impl FnOnce() -> u64) -> bool {
        if endpoint.is_empty() || endpoint == Endpoint::DRY_RUN {
            return false;
        }
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_ref() else {
            return false;
        };
        let offers = |endpoint| known.endpoints.contains(endpoint);
        !offers(endpoint) && !offers(Endpoint::DEFAULT) && known.generation == generation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offers: &[&str], endpoint: &str, lacks: bool) {
        let offered = Offered::default();
        let endpoints = offers.iter().map(|&it| it.to_owned()).collect();
        offered.learn(endpoints, 7);
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
        offered.learn(vec!["/index".to_owned()], 7);
        assert!(!offered.lacks("/search", || 8));
    }
}
