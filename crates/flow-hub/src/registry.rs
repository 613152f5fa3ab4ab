//! Requests to a registry over HTTP, with authentication where the registry requires it.
//!
//! The rules:
//! - A registry on this machine without a certificate of its own is called without TLS, as Docker does. All others are
//!   called with TLS.
//! - Credentials are sent only after a challenge, and only to the registry itself or over TLS to the token server that it
//!   names.
//! - Time and size of each answer are limited.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_docker::{Credentials, Secret};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use crate::challenge::Challenge;
use crate::error::RegistryError;
use crate::trust::TrustStore;

/// The time that one answer may take in all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest answer. A configuration contains labels and history, and a page of a list a hundred names.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// The host of Docker's public registry in image names, and the one to connect to.
const PUBLIC: (&str, &str) = (flow_docker::PUBLIC_REGISTRY, "registry-1.docker.io");

/// A registry, with the credentials for it.
#[derive(Debug)]
pub struct Registry {
    host: String,
    root: String,
    credentials: Option<Credentials>,
    agent: Agent,
    /// The `Authorization` header that was accepted, by scope.
    tokens: RefCell<HashMap<String, Secret>>,
}

/// A request.
pub(crate) struct RegistryRequest<'q> {
    /// The path after `/v2/`.
    pub(crate) path: &'q str,
    /// Accepted media types of the answer.
    pub(crate) accept: &'q str,
    /// What is requested, a noun for messages.
    pub(crate) what: &'q str,
    /// The token scope that it needs.
    pub(crate) scope: &'q str,
}

/// A decoded answer.
pub(crate) struct RegistryResponse<T> {
    pub(crate) value: T,
    /// The path of the next page, if there is one.
    pub(crate) next: Option<String>,
    /// The digest of the content, if the registry sends it.
    pub(crate) digest: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

impl Registry {
    /// The registry `host[:port]`, with these credentials and trusted certificates.
    #[must_use]
    pub fn new(host: &str, credentials: Option<Credentials>, trust: &TrustStore) -> Self {
        let config = Agent::config_builder()
            .tls_config(trust.tls())
            .timeout_global(Some(ANSWER_TIMEOUT))
            // The body of an error is read too.
            .http_status_as_error(false)
            .user_agent(concat!("flow/", env!("CARGO_PKG_VERSION")));
        let address = if host == PUBLIC.0 { PUBLIC.1 } else { host };
        let scheme = match is_local(host) && !trust.has_own() {
            true => "http",
            false => "https",
        };
        Self {
            host: host.to_owned(),
            root: format!("{scheme}://{address}"),
            credentials,
            agent: config.build().into(),
            tokens: RefCell::default(),
        }
    }

    /// Its host and port, as in image names.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request and decodes the answer.
    pub(crate) fn request<T: DeserializeOwned>(
        &self,
        request: &RegistryRequest<'_>,
    ) -> Result<RegistryResponse<T>, RegistryError> {
        let mut answer = self.send_authenticated(request)?;
        let next = header(&answer, "link").and_then(|it| next(&it));
        let digest = header(&answer, "docker-content-digest");
        let text = self.read(&mut answer)?;
        let read = serde_json::from_slice(&text).map_err(|source| RegistryError::InvalidResponse {
            host: self.host.clone(),
            what: request.what.to_owned(),
            source,
        });
        Ok(RegistryResponse {
            value: read?,
            next,
            digest,
        })
    }

    /// Sends a request, and sends it again with credentials if the registry requires them.
    fn send_authenticated(
        &self,
        request: &RegistryRequest<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let known = self.tokens.borrow().get(request.scope).cloned();
        let first = self.send(request, known.as_ref().map(|it| it.reveal().as_str()))?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return self.check_status(first, request);
        }
        let challenge = header(&first, "www-authenticate").and_then(|it| Challenge::parse(&it));
        let authorization = match challenge {
            Some(challenge) => self.authorization(&challenge, request)?,
            None => None,
        };
        let authorization = authorization.ok_or_else(|| self.forbidden(request))?;
        let second = self.send(request, Some(&authorization))?;
        let scope = request.scope.to_owned();
        let authorization = Secret::new(authorization);
        self.tokens.borrow_mut().insert(scope, authorization);
        self.check_status(second, request)
    }

    fn send(
        &self,
        request: &RegistryRequest<'_>,
        authorization: Option<&str>,
    ) -> Result<Response<Body>, RegistryError> {
        let url = format!("{}/v2/{}", self.root, request.path);
        let mut get = self.agent.get(url).header("accept", request.accept);
        if let Some(authorization) = authorization {
            get = get.header("authorization", authorization);
        }
        get.call().map_err(|source| self.unreachable(source))
    }

    /// The `Authorization` header for a challenge; `None` without credentials.
    fn authorization(
        &self,
        challenge: &Challenge,
        request: &RegistryRequest<'_>,
    ) -> Result<Option<String>, RegistryError> {
        match challenge {
            Challenge::Basic => Ok(self.basic()),
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => {
                let scope = scope.as_deref().unwrap_or(request.scope);
                let token = self.token(realm, service.as_deref(), scope)?;
                Ok(token.map(|token| format!("Bearer {token}")))
            }
        }
    }

    fn basic(&self) -> Option<String> {
        let credentials = self.credentials.as_ref()?;
        let (name, password) = credentials
            .username
            .as_ref()
            .zip(credentials.password.as_ref())?;
        let pair = STANDARD.encode(format!("{name}:{}", password.reveal()));
        Some(format!("Basic {pair}"))
    }

    /// Requests a token, anonymously without credentials.
    fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<Option<String>, RegistryError> {
        if let Some(token) = self
            .credentials
            .as_ref()
            .and_then(|it| it.registry_token.clone())
        {
            return Ok(Some(token.into_revealed()));
        }
        let mut answer = match self.identity_token() {
            Some(identity) => self.token_by_identity(realm, service, scope, identity)?,
            None => self.token_by_password(realm, service, scope)?,
        };
        if !answer.status().is_success() {
            return Ok(None);
        }
        let text = self.read(&mut answer)?;
        let token: Token =
            serde_json::from_slice(&text).map_err(|source| RegistryError::InvalidResponse {
                host: self.host.clone(),
                what: format!("a token from `{realm}`"),
                source,
            })?;
        Ok(Some(token.token))
    }

    fn token_by_password(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<Response<Body>, RegistryError> {
        let mut request = self.agent.get(realm).query("scope", scope);
        if let Some(service) = service {
            request = request.query("service", service);
        }
        if let Some(basic) = self.basic().filter(|_| self.may_receive_password(realm)) {
            request = request.header("authorization", basic);
        }
        request.call().map_err(|source| self.unreachable(source))
    }

    /// The identity token that `docker login` stored in place of a password.
    fn identity_token(&self) -> Option<&str> {
        let token = self.credentials.as_ref()?.identity_token.as_ref();
        token.map(|it| it.reveal().as_str())
    }

    fn token_by_identity(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        identity: &str,
    ) -> Result<Response<Body>, RegistryError> {
        if !self.may_receive_password(realm) {
            return self.token_by_password(realm, service, scope);
        }
        let form = [
            ("grant_type", "refresh_token"),
            ("service", service.unwrap_or(&self.host)),
            ("client_id", "flow"),
            ("scope", scope),
            ("refresh_token", identity),
        ];
        let sent = self.agent.post(realm).send_form(form);
        sent.map_err(|source| self.unreachable(source))
    }

    /// Whether a password may be sent to this URL: over TLS, to the registry itself, or within this machine if the registry
    /// is on it too.
    fn may_receive_password(&self, realm: &str) -> bool {
        let open = realm.strip_prefix("http://");
        let open = open.map(|rest| rest.split('/').next().unwrap_or(rest));
        let stays_local = is_local(&self.host) && open.is_some_and(is_local);
        realm.starts_with("https://")
            || realm.starts_with(&format!("{}/", self.root))
            || stays_local
    }

    fn check_status(
        &self,
        answer: Response<Body>,
        request: &RegistryRequest<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let (host, what) = (self.host.clone(), request.what.to_owned());
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.forbidden(request)),
            StatusCode::NOT_FOUND => Err(RegistryError::Missing { host, what }),
            status => Err(RegistryError::UnexpectedStatus {
                host,
                what,
                status: status.as_u16(),
            }),
        }
    }

    fn forbidden(&self, request: &RegistryRequest<'_>) -> RegistryError {
        RegistryError::Forbidden {
            host: self.host.clone(),
            what: request.what.to_owned(),
        }
    }

    fn unreachable(&self, source: ureq::Error) -> RegistryError {
        let (host, source) = (self.host.clone(), Box::new(source));
        // The TLS library has no error of its own for this.
        match source.to_string().contains("certificate") {
            true => RegistryError::Untrusted { host, source },
            false => RegistryError::Unreachable { host, source },
        }
    }

    fn read(&self, answer: &mut Response<Body>) -> Result<Vec<u8>, RegistryError> {
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_vec()
            .map_err(|source| self.unreachable(source))
    }
}

/// Whether a registry is on this machine.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.starts_with("127.") || name == "[::1]"
}

fn header(answer: &Response<Body>, name: &str) -> Option<String> {
    let value = answer.headers().get(name)?;
    value.to_str().ok().map(str::to_owned)
}

/// The path of the next page after `/v2/`: `</v2/_catalog?last=b&n=2>; rel="next"`.
fn next(link: &str) -> Option<String> {
    let (url, rest) = link.strip_prefix('<')?.split_once('>')?;
    let (_, path) = url.split_once("/v2/")?;
    rest.contains("next").then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_called_without_tls() {
        let root = |host: &str| Registry::new(host, None, &TrustStore::default()).root;
        assert_eq!(root("localhost:5000"), "http://localhost:5000");
        assert_eq!(root("127.0.0.1:5000"), "http://127.0.0.1:5000");
        assert_eq!(root("r.example.com"), "https://r.example.com");
        assert_eq!(
            root("localhost.example.com"),
            "https://localhost.example.com"
        );
        assert_eq!(root("docker.io"), "https://registry-1.docker.io");
    }

    #[test]
    fn a_password_goes_to_the_registry_or_over_tls_or_stays_on_this_machine() {
        let may_receive_password = |host: &str, realm: &str| {
            Registry::new(host, None, &TrustStore::default()).may_receive_password(realm)
        };
        assert!(may_receive_password(
            "localhost:5000",
            "http://localhost:5000/token"
        ));
        assert!(may_receive_password(
            "localhost:5000",
            "http://127.0.0.1:5001/token"
        ));
        assert!(may_receive_password(
            "localhost:5000",
            "https://auth.example.com/token"
        ));
        assert!(!may_receive_password(
            "localhost:5000",
            "http://auth.example.com/token"
        ));
        assert!(!may_receive_password(
            "localhost:5000",
            "http://localhost.example.com/token"
        ));
        assert!(!may_receive_password(
            "r.example.com",
            "http://localhost:5001/token"
        ));
        assert!(!may_receive_password(
            "r.example.com",
            "http://r.example.com/token"
        ));
    }

    #[test]
    fn a_page_names_the_next_page() {
        let path = next("</v2/_catalog?last=b&n=2>; rel=\"next\"");
        assert_eq!(path.as_deref(), Some("_catalog?last=b&n=2"));
        assert_eq!(next("nonsense"), None);
    }
}
