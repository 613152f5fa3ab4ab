//! What a flow reports about itself before requests are sent: its endpoints, and the version of DocArray that it reads.
//!
//! Stock gateways with the first version of DocArray have no discovery, and no gateway answers while one of its executors
//! is down. Then nothing is known, and every endpoint may exist.

use std::fmt;
use std::time::{Duration, Instant};

use flow_core::discovery::{accepted, docarray_version, executors, has_default, offers};
use flow_core::{Deadline, DocArrayVersion, Endpoint, closest};
use flow_net::Client;
use flow_proto::jina::EndpointsProto;

use crate::addressees::{UnknownExecutor, check_parameters, check_target};
use crate::request::RequestTemplate;

/// Longest wait for the answer, which takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What is known about a flow. Empty if the flow did not answer.
#[derive(Debug, Clone, Default)]
pub struct Discovery(Option<EndpointsProto>);

/// No executor names the endpoint.
///
/// The error is also given for an endpoint that an executor would answer by default, if it looks like a misspelt one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEndpoint {
    /// The endpoint.
    pub endpoint: String,
    /// The endpoint that was probably meant.
    pub similar: Option<String>,
    /// Whether an executor answers endpoints that it does not name.
    pub has_default: bool,
    /// The endpoints that executors name.
    pub known: Vec<String>,
}

impl Discovery {
    /// Asks the flow.
    pub(crate) async fn ask(client: &Client, timeout: Option<Duration>) -> Self {
        let limit = timeout.map_or(ANSWER_MAX, |timeout| timeout.min(ANSWER_MAX));
        let deadline = Deadline::after(Instant::now(), Some(limit));
        let answer = client.endpoints(deadline).await;
        if let Err(failure) = &answer {
            tracing::debug!(%failure, "discovery failed");
        }
        Self(answer.ok().filter(|it| !it.endpoints.is_empty()))
    }

    /// The version of DocArray that the executors read. `None` if they read both, or if it is not known.
    #[must_use]
    pub fn docarray_version(&self) -> Option<DocArrayVersion> {
        self.0.as_ref().and_then(docarray_version)
    }

    /// Checks that an executor has this endpoint.
    ///
    /// # Errors
    ///
    /// If none has it, or if it looks like a misspelt one.
    pub fn check(&self, endpoint: &Endpoint) -> Result<(), UnknownEndpoint> {
        let endpoint = endpoint.as_str();
        let Some(answer) = &self.0 else {
            return Ok(());
        };
        if endpoint == Endpoint::DRY_RUN || offers(answer, endpoint) {
            return Ok(());
        }
        let known: Vec<&str> = named(answer).collect();
        let similar = closest(endpoint, known.iter().copied());
        let has_default = has_default(answer);
        if has_default && similar.is_none() {
            return Ok(());
        }
        Err(UnknownEndpoint {
            endpoint: endpoint.to_owned(),
            similar: similar.map(str::to_owned),
            has_default,
            known: known.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Checks that the flow has the executors which requests are for: those that the target selects, and those that the
    /// parameters name.
    ///
    /// # Errors
    ///
    /// If one is not there. Without discovery, and without a gateway of `flow`, every executor may be there.
    pub fn check_addressees(&self, requests: &RequestTemplate) -> Result<(), UnknownExecutor> {
        let Some(answer) = &self.0 else {
            return Ok(());
        };
        let Some(executors) = executors(answer) else {
            return Ok(());
        };
        if let Some(target) = &requests.target {
            check_target(target, &executors)?;
        }
        let accepted = accepted(answer, answered(answer, &requests.endpoint));
        check_parameters(&requests.parameters, accepted.as_ref(), &executors)
    }
}

/// The endpoint whose method answers this one.
fn answered<'e>(answer: &EndpointsProto, endpoint: &'e str) -> &'e str {
    match offers(answer, endpoint) {
        true => endpoint,
        false => Endpoint::DEFAULT,
    }
}

/// The endpoints that executors name.
fn named(answer: &EndpointsProto) -> impl Iterator<Item = &str> {
    let all = answer.endpoints.iter().map(String::as_str);
    all.filter(|&it| it != Endpoint::DEFAULT && it != Endpoint::DRY_RUN)
}

impl fmt::Display for UnknownEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no executor has an endpoint `{}`; ", self.endpoint)?;
        match &self.similar {
            Some(similar) => write!(f, "did you mean `{similar}`?"),
            None => write!(f, "there are: {}", self.known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownEndpoint {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offered: &[&str], endpoint: &str, expected: Option<&str>) {
        let answer = EndpointsProto {
            endpoints: offered.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        };
        let checked = Discovery(Some(answer)).check(&endpoint.parse().unwrap());
        let error = checked.err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), expected, "{offered:?} {endpoint}");
    }

    const INDEX: [&str; 3] = ["/index", "/search", "_jina_dry_run_"];
    const DEFAULT: [&str; 3] = ["/default", "/search", "_jina_dry_run_"];

    #[test]
    fn an_endpoint_that_executors_name_is_accepted() {
        check(&INDEX, "/search", None);
        check(&DEFAULT, "/search", None);
        check(&INDEX, "_jina_dry_run_", None);
    }

    #[test]
    fn an_unknown_endpoint_is_an_error_with_a_suggestion_or_the_known_ones() {
        let similar = "no executor has an endpoint `/serach`; did you mean `/search`?";
        check(&INDEX, "/serach", Some(similar));
        let known = "no executor has an endpoint `/encode`; there are: /index, /search";
        check(&INDEX, "/encode", Some(known));
    }

    #[test]
    fn a_default_method_answers_every_endpoint_that_is_not_a_misspelt_one() {
        check(&DEFAULT, "/encode", None);
        check(&["/default", "_jina_dry_run_"], "/anything", None);
        let similar = "no executor has an endpoint `/serach`; did you mean `/search`?";
        check(&DEFAULT, "/serach", Some(similar));
    }

    #[test]
    fn a_flow_without_discovery_may_have_every_endpoint() {
        let nothing = Discovery::default();
        assert_eq!(nothing.check(&"/serach".parse().unwrap()), Ok(()));
        assert_eq!(nothing.docarray_version(), None);
    }
}
