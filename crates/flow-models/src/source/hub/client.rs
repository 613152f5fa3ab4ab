//! Requests to the hub over HTTP.
//!
//! The token goes to the hub only, and only over TLS or within this machine. Redirects are followed here, so that each hop is
//! judged by these rules.

use std::time::Duration;

use flow_core::Secret;
use hf_hub::api::RepoInfo;
use ureq::http::header::{AUTHORIZATION, LOCATION, RANGE};
use ureq::http::uri::PathAndQuery;
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

use super::answers::{InvalidPart, shortened};
use super::error::HubError;
use super::limits::DownloadLimits;

/// Maximum redirects from one URL. The hub needs two.
const REDIRECTS_MAX: usize = 5;

/// A client of one hub.
pub(super) struct HubClient {
    endpoint: String,
    origin: Origin,
    token: Option<Secret>,
    agent: Agent,
    limits: DownloadLimits,
}

/// Who answers a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

/// An answer after all redirects.
pub(super) struct HubResponse {
    pub(super) response: Response<Body>,
    /// The headers of the last answer of the hub itself. They describe the file, even if another host sends it.
    pub(super) hub_headers: HeaderMap,
}

impl HubClient {
    pub(super) fn new(
        endpoint: &str,
        token: Option<Secret>,
        limits: &DownloadLimits,
    ) -> Result<Self, HubError> {
        let uri: Option<Uri> = endpoint.parse().ok();
        let origin =
            uri.as_ref()
                .and_then(Origin::of)
                .ok_or_else(|| HubError::InvalidResponse {
                    url: endpoint.to_owned(),
                    part: "address",
                    found: endpoint.to_owned(),
                    expected: "a URL such as `https://huggingface.co` in HF_ENDPOINT",
                })?;
        let mut config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_resolve(Some(limits.connect_time))
            .timeout_connect(Some(limits.connect_time))
            .timeout_per_read(Some(limits.silence))
            // Lengths and checksums are those of the file itself.
            .accept_encoding("identity")
            .user_agent(concat!("flow/", env!("CARGO_PKG_VERSION")));
        if origin.is_local() {
            // A proxy is another machine.
            config = config.proxy(None);
        }
        Ok(Self {
            endpoint: endpoint.to_owned(),
            origin,
            token,
            agent: config.build().into(),
            limits: limits.clone(),
        })
    }

    /// Whether there is a token that would be readable on the way to the hub.
    pub(super) fn withholds_token(&self) -> bool {
        self.token.is_some() && !self.origin.is_confidential()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.endpoint)
    }

    /// Fetches the description of a repository.
    pub(super) fn description(&self, what: &str, path: &str) -> Result<RepoInfo, HubError> {
        let limit = self.limits.answer_time;
        let answer = self.get(what, path, None, limit)?;
        let (_, body) = answer.response.into_parts();
        let bytes_max = self.limits.description_bytes_max;
        let text = body.into_with_config().limit(bytes_max).read_to_vec();
        let text = text.map_err(|source| self.failed(what, path, limit, source))?;
        serde_json::from_slice(&text).map_err(|source| HubError::Description {
            url: self.url(path),
            source,
        })
    }

    /// Fetches `path`, or a range of it, and follows redirects. The time limit includes the body.
    pub(super) fn get(
        &self,
        what: &str,
        path: &str,
        range: Option<&str>,
        limit: Duration,
    ) -> Result<HubResponse, HubError> {
        let first = self.url(path);
        let mut url = first.clone();
        let mut hub_headers = HeaderMap::new();
        for _ in 0..=REDIRECTS_MAX {
            let uri: Uri = url.parse().map_err(|_| invalid_location(&first, &url))?;
            let origin = Origin::of(&uri).ok_or_else(|| invalid_location(&first, &url))?;
            let response = self
                .send(&url, &origin, range, limit)
                .map_err(|source| self.failed(what, path, limit, source))?;
            if origin == self.origin {
                hub_headers = response.headers().clone();
            }
            if !response.status().is_redirection() {
                return check_status(response, hub_headers, url);
            }
            url = self.next_url(&url, &uri, &response)?;
        }
        let reason = "too often";
        Err(HubError::Redirect { url: first, reason })
    }

    fn send(
        &self,
        url: &str,
        origin: &Origin,
        range: Option<&str>,
        limit: Duration,
    ) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.get(url).config().timeout_global(Some(limit));
        let mut request = request.build();
        if let Some(range) = range {
            request = request.header(RANGE, format!("bytes={range}"));
        }
        let may_know = *origin == self.origin && origin.is_confidential();
        if let Some(token) = self.token.as_ref().filter(|_| may_know) {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        request.call()
    }

    /// Where a redirect leads.
    fn next_url(
        &self,
        url: &str,
        uri: &Uri,
        response: &Response<Body>,
    ) -> Result<String, HubError> {
        let location = response.headers().get(LOCATION);
        let location = location.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let next = join(uri, location).ok_or_else(|| invalid_location(url, location))?;
        let is_encrypted = next.scheme_str() == Some("https");
        if self.origin.scheme == "https" && !is_encrypted {
            let (url, reason) = (url.to_owned(), "from HTTPS to a URL without TLS");
            return Err(HubError::Redirect { url, reason });
        }
        Ok(next.to_string())
    }

    /// The error about a part of the answer of `path`.
    pub(super) fn invalid(&self, path: &str, invalid: InvalidPart) -> HubError {
        HubError::InvalidResponse {
            url: self.url(path),
            part: invalid.part,
            found: invalid.found,
            expected: invalid.expected,
        }
    }

    /// A request failed.
    pub(super) fn failed(
        &self,
        what: &str,
        path: &str,
        limit: Duration,
        source: ureq::Error,
    ) -> HubError {
        match source {
            ureq::Error::Timeout(ureq::Timeout::Global) => HubError::Timeout {
                url: self.url(path),
                limit,
            },
            source => HubError::Request {
                endpoint: self.endpoint.clone(),
                what: what.to_owned(),
                source: Box::new(source),
            },
        }
    }
}

impl Origin {
    fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?;
        let default_port = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        Some(Self {
            scheme: scheme.to_owned(),
            host: uri.host()?.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(default_port),
        })
    }

    /// Whether the connection is encrypted or stays within this machine.
    fn is_confidential(&self) -> bool {
        self.scheme == "https" || self.is_local()
    }

    /// Whether it is this machine.
    fn is_local(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let address: Option<std::net::IpAddr> = host.parse().ok();
        host == "localhost" || address.is_some_and(|address| address.is_loopback())
    }
}

/// The URL that `location` means in an answer of `base`.
fn join(base: &Uri, location: &str) -> Option<Uri> {
    let mut parts = base.clone().into_parts();
    if location.starts_with("//") {
        return format!("{}:{location}", base.scheme_str()?).parse().ok();
    }
    if location.starts_with('/') {
        parts.path_and_query = Some(location.parse::<PathAndQuery>().ok()?);
        return Uri::from_parts(parts).ok();
    }
    let absolute: Uri = location.parse().ok()?;
    absolute.scheme().is_some().then_some(absolute)
}

fn check_status(
    response: Response<Body>,
    hub_headers: HeaderMap,
    url: String,
) -> Result<HubResponse, HubError> {
    if !response.status().is_success() {
        let status = response.status().as_u16();
        return Err(HubError::Status { url, status });
    }
    Ok(HubResponse {
        response,
        hub_headers,
    })
}

fn invalid_location(url: &str, location: &str) -> HubError {
    HubError::InvalidResponse {
        url: url.to_owned(),
        part: "redirect",
        found: shortened(location),
        expected: "a URL of HTTP or HTTPS, or a path from the root",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(endpoint: &str) -> HubClient {
        let limits = DownloadLimits::default();
        HubClient::new(endpoint, Some(Secret::new("secret".to_owned())), &limits).unwrap()
    }

    #[test]
    fn the_token_is_withheld_from_other_machines_without_tls() {
        for endpoint in [
            "http://mirror.example",
            "http://10.0.0.1:8080",
            "http://localhost.example",
        ] {
            assert!(client(endpoint).withholds_token(), "{endpoint}");
        }
        for endpoint in [
            "https://mirror.example",
            "http://localhost:1",
            "http://127.0.0.2",
            "http://[::1]:80",
        ] {
            assert!(!client(endpoint).withholds_token(), "{endpoint}");
        }
    }

    #[test]
    fn another_port_or_scheme_is_another_origin() {
        let of = |url: &str| Origin::of(&url.parse().unwrap()).unwrap();
        assert_eq!(of("https://Hub.example/a"), of("https://hub.example:443/b"));
        assert_ne!(of("https://hub.example"), of("http://hub.example"));
        assert_ne!(of("https://hub.example"), of("https://hub.example:8443"));
        assert_ne!(of("https://hub.example"), of("https://hub.example.evil"));
    }

    #[test]
    fn a_redirect_from_https_to_http_is_refused() {
        let client = client("https://hub.example");
        let redirect = |to: &str| {
            let response = Response::builder()
                .header(LOCATION, to)
                .body(Body::builder().data(""));
            let url = "https://hub.example/a";
            client.next_url(url, &url.parse().unwrap(), &response.unwrap())
        };
        assert_eq!(redirect("/b?c").unwrap(), "https://hub.example/b?c");
        assert_eq!(
            redirect("//cdn.example/b").unwrap(),
            "https://cdn.example/b"
        );
        assert_eq!(
            redirect("https://cdn.example/b").unwrap(),
            "https://cdn.example/b"
        );
        for refused in [
            "http://cdn.example/b",
            "http://hub.example/b",
            "file:///etc/passwd",
            "b",
            "",
        ] {
            assert!(redirect(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn an_endpoint_that_is_no_url_is_refused() {
        for endpoint in ["", "hub", "ftp://hub", "://"] {
            let limits = DownloadLimits::default();
            assert!(
                HubClient::new(endpoint, None, &limits).is_err(),
                "{endpoint}"
            );
        }
    }
}
