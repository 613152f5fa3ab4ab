//! What the other side offers, asked before anything is sent: its endpoints, and the format of documents
//! that it takes.
//!
//! A side that does not tell is sent to as the options say. Stock gateways do not tell, nor does a gateway
//! one of whose executors is down.

use std::time::{Duration, Instant};

use flow_core::discovery::{flavour, has_default, offers};
use flow_core::{Deadline, Endpoint, Flavour, closest};
use flow_net::Client;
use flow_proto::jina::EndpointsProto;

use crate::exit::BadUsage;
use crate::output;

/// How long the other side may take to tell. It takes milliseconds where it does.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What the other side said; nothing, if it did not tell.
#[derive(Debug, Default)]
pub(super) struct Offered(Option<EndpointsProto>);

impl Offered {
    /// Asks, for no longer than `timeout`.
    pub(super) async fn ask(client: &Client, timeout: Option<Duration>) -> Self {
        let limit = timeout.map_or(ANSWER_MAX, |timeout| timeout.min(ANSWER_MAX));
        let deadline = Deadline::after(Instant::now(), Some(limit));
        let said = client.endpoints(deadline).await;
        if let Err(failure) = &said {
            tracing::debug!(%failure, "the other side does not tell its endpoints");
        }
        Self(said.ok().filter(|said| !said.endpoints.is_empty()))
    }

    /// The format that documents are sent in: the one that the user wants, else the one that the other side
    /// reads, which the user is told if it differs.
    pub(super) fn choose(&self, wanted: Option<Flavour>) -> Flavour {
        let read = self.0.as_ref().and_then(flavour);
        if let (Some(wanted), Some(read)) = (wanted, read)
            && wanted != read
        {
            output::error_line(&format!(
                "flow: documents are sent as `--flavour` says, but the executors read those of {}",
                described(read)
            ));
        }
        wanted.or(read).unwrap_or_default()
    }

    /// Fails if nobody is known to work on `endpoint`, or if it looks like a misspelt one: then at most
    /// executors would answer it that answer every endpoint.
    pub(super) fn check(&self, endpoint: &Endpoint) -> Result<(), BadUsage> {
        let endpoint = endpoint.as_str();
        let Some(said) = &self.0 else {
            return Ok(());
        };
        if endpoint == Endpoint::DRY_RUN || offers(said, endpoint) {
            return Ok(());
        }
        let named: Vec<&str> = named(said).collect();
        let hint = match (closest(endpoint, named.iter().copied()), has_default(said)) {
            (None, true) => return Ok(()),
            (Some(meant), true) => format!(
                "did you mean `{meant}`? `--any-endpoint` sends it to executors that answer any endpoint"
            ),
            (Some(meant), false) => format!("did you mean `{meant}`?"),
            (None, false) => format!("there are: {}", named.join(", ")),
        };
        Err(BadUsage(format!(
            "no executor has an endpoint `{endpoint}`; {hint}"
        )))
    }
}

/// A format by the releases of DocArray that have it, and what to type for it.
pub(super) fn described(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::V1 => "DocArray up to 0.21: try `--flavour v1`",
        Flavour::V2 => "DocArray 0.30 or newer: try `--flavour v2`",
    }
}

/// Endpoints that executors name.
fn named(said: &EndpointsProto) -> impl Iterator<Item = &str> {
    let all = said.endpoints.iter().map(String::as_str);
    all.filter(|&it| it != Endpoint::DEFAULT && it != Endpoint::DRY_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offered: &[&str], endpoint: &str, expected: Option<&str>) {
        let said = EndpointsProto {
            endpoints: offered.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        };
        let said = Offered(Some(said)).check(&endpoint.parse().unwrap());
        let said = said.err().map(|error| error.0);
        assert_eq!(said.as_deref(), expected, "{offered:?} {endpoint}");
    }

    const INDEX: [&str; 3] = ["/index", "/search", "_jina_dry_run_"];
    const DEFAULT: [&str; 3] = ["/default", "/search", "_jina_dry_run_"];

    #[test]
    fn an_endpoint_that_executors_name_is_fine() {
        check(&INDEX, "/search", None);
        check(&DEFAULT, "/search", None);
        check(&INDEX, "_jina_dry_run_", None);
    }

    #[test]
    fn an_endpoint_that_nobody_answers_is_refused_with_what_there_is() {
        check(
            &INDEX,
            "/serach",
            Some("no executor has an endpoint `/serach`; did you mean `/search`?"),
        );
        check(
            &INDEX,
            "/encode",
            Some("no executor has an endpoint `/encode`; there are: /index, /search"),
        );
    }

    #[test]
    fn an_executor_with_a_default_answers_any_endpoint_that_is_no_slip() {
        check(&DEFAULT, "/encode", None);
        check(&["/default", "_jina_dry_run_"], "/anything", None);
        let said = "no executor has an endpoint `/serach`; did you mean `/search`? \
                    `--any-endpoint` sends it to executors that answer any endpoint";
        check(&DEFAULT, "/serach", Some(said));
    }

    #[test]
    fn a_side_that_does_not_tell_may_have_any_endpoint() {
        let endpoint = "/serach".parse().unwrap();
        assert!(Offered::default().check(&endpoint).is_ok());
        let chosen = [None, Some(Flavour::V2)].map(|it| Offered::default().choose(it));
        assert_eq!(chosen, [Flavour::V1, Flavour::V2]);
    }
}
