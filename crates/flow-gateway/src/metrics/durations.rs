//! How long requests took, by API, endpoint and outcome.
//!
//! Clients choose the names of endpoints. A name that no executor offers is counted as `other`, so clients cannot create
//! labels.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use flow_core::{Code, Endpoint};
use flow_metrics::{Description, DurationHistogram, Registry, TraceId};

use super::api::Api;
use super::runtime::RUNTIME;

/// Endpoints of one API that have a label of their own. Executors have a handful; a flow whose executors are replaced again and
/// again, each time with other endpoints, has no more than these.
const ENDPOINTS_MAX: usize = 256;

/// Where endpoints are counted that no executor offers.
const OTHER: &str = "other";

const DESCRIPTION: Description<'_> = Description {
    name: "flow_request_duration_seconds",
    help: "Time from the arrival of a request to its reply, by API, endpoint and outcome.",
};

/// Durations of requests.
pub(super) struct RequestDurations {
    registry: Registry,
    /// By API.
    apis: [RwLock<HashMap<Box<str>, Arc<EndpointDurations>>>; Api::ALL.len()],
}

/// Durations of the requests of one API at one endpoint. Each outcome is registered when it first occurs.
pub(super) struct EndpointDurations {
    registry: Registry,
    api: Api,
    endpoint: Box<str>,
    /// By code; the first is success.
    outcomes: [OnceLock<DurationHistogram>; Code::ALL.len() + 1],
}

impl RequestDurations {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            registry: registry.clone(),
            apis: std::array::from_fn(|_| RwLock::default()),
        }
    }

    /// The durations of requests of an API to an endpoint, of which `knows` says whether an executor offers it.
    pub(super) fn of(
        &self,
        api: Api,
        endpoint: &str,
        knows: impl FnOnce(&str) -> bool,
    ) -> Arc<EndpointDurations> {
        let endpoint = match endpoint {
            "" => Endpoint::DEFAULT,
            endpoint => endpoint,
        };
        if let Some(durations) = self.find(api, endpoint) {
            return durations;
        }
        match endpoint == Endpoint::DRY_RUN || knows(endpoint) {
            true => self.add(api, endpoint),
            false => self
                .find(api, OTHER)
                .unwrap_or_else(|| self.add(api, OTHER)),
        }
    }

    fn find(&self, api: Api, endpoint: &str) -> Option<Arc<EndpointDurations>> {
        let endpoints = self.apis[api as usize].read();
        let endpoints = endpoints.unwrap_or_else(PoisonError::into_inner);
        endpoints.get(endpoint).cloned()
    }

    fn add(&self, api: Api, endpoint: &str) -> Arc<EndpointDurations> {
        let endpoints = self.apis[api as usize].write();
        let mut endpoints = endpoints.unwrap_or_else(PoisonError::into_inner);
        let endpoint = match endpoints.len() < ENDPOINTS_MAX || endpoints.contains_key(endpoint) {
            true => endpoint,
            false => OTHER,
        };
        let new = || {
            Arc::new(EndpointDurations {
                registry: self.registry.clone(),
                api,
                endpoint: endpoint.into(),
                outcomes: std::array::from_fn(|_| OnceLock::new()),
            })
        };
        endpoints.entry(endpoint.into()).or_insert_with(new).clone()
    }
}

impl EndpointDurations {
    /// Adds a request that succeeded, or failed with this code.
    pub(super) fn observe(&self, failed: Option<Code>, took: Duration, trace: Option<TraceId>) {
        let outcome = failed.map_or(0, |code| code as usize + 1);
        let durations = self.outcomes[outcome].get_or_init(|| self.register(failed));
        durations.observe_traced(took, trace);
    }

    fn register(&self, failed: Option<Code>) -> DurationHistogram {
        let durations = DurationHistogram::default();
        let labels = [
            ("api", self.api.as_str()),
            ("endpoint", &*self.endpoint),
            ("code", failed.map_or("ok", Code::as_str)),
            ("runtime_name", RUNTIME),
        ];
        self.registry
            .register(DESCRIPTION, &labels, durations.clone());
        durations
    }
}

impl fmt::Debug for RequestDurations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestDurations")
    }
}

impl fmt::Debug for EndpointDurations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointDurations({})", self.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(registry: &Registry, api: &str, endpoint: &str, code: &str) -> Option<String> {
        let text = registry.text();
        let name = format!(
            "flow_request_duration_seconds_count{{api=\"{api}\",endpoint=\"{endpoint}\",code=\"{code}\",runtime_name=\"{RUNTIME}\"}} "
        );
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map(str::to_owned)
    }

    #[test]
    fn each_outcome_of_an_endpoint_is_counted_by_itself() {
        let registry = Registry::new();
        let durations = RequestDurations::new(&registry);
        let took = Duration::from_millis(3);
        let encode = durations.of(Api::Tei, "/encode", |it| it == "/encode");
        encode.observe(None, took, None);
        encode.observe(None, took, None);
        encode.observe(Some(Code::Internal), took, None);
        let counted = |code| counted(&registry, "tei", "/encode", code);
        assert_eq!(counted("ok").as_deref(), Some("2"));
        assert_eq!(counted("internal").as_deref(), Some("1"));
        assert_eq!(counted("lost"), None);
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as usize, index, "each has a place of its own");
        }
    }

    #[test]
    fn clients_cannot_create_labels() {
        let registry = Registry::new();
        let durations = RequestDurations::new(&registry);
        for number in 0..10 {
            let name = format!("/of-the-clients-own-{number}");
            let other = durations.of(Api::Grpc, &name, |_| false);
            other.observe(None, Duration::ZERO, None);
        }
        durations
            .of(Api::Grpc, "", |it| it == "/default")
            .observe(None, Duration::ZERO, None);
        assert_eq!(
            counted(&registry, "grpc", "other", "ok").as_deref(),
            Some("10")
        );
        assert_eq!(
            counted(&registry, "grpc", "/default", "ok").as_deref(),
            Some("1")
        );
        assert!(!registry.text().contains("own"));
    }

    #[test]
    fn no_more_endpoints_are_known_than_are_allowed() {
        let registry = Registry::new();
        let durations = RequestDurations::new(&registry);
        for number in 0..2 * ENDPOINTS_MAX {
            durations.of(Api::Grpc, &format!("/{number}"), |_| true);
        }
        let endpoints = durations.apis[Api::Grpc as usize].read().unwrap();
        assert_eq!(endpoints.len(), ENDPOINTS_MAX + 1);
        assert!(endpoints.contains_key(OTHER));
    }
}
