//! A registry that is asked over HTTP, and told who we are where it wants to know.
//!
//! The rules:
//! - A registry on this machine for which nobody has put a certificate in place is asked without TLS, as Docker
//!   does; every other one with it.
//! - Nobody is told who we are before asking, and nobody but the registry itself, or whom it names over TLS.
//! - Every wait has a limit, and so has the size of an answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_docker::Credentials;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use crate::challenge::Challenge;
use crate::error::RegistryError;
use crate::trust::Trust;

/// How long one answer may take, all of it.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The largest answer: a config holds labels and history, and a catalogue a thousand names.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// Docker's public registry as image names have it, and where it listens.
const PUBLIC: (&str, &str) = (flow_docker::PUBLIC_REGISTRY, "registry-1.docker.io");

/// A registry, and who we are there.
#[derive(Debug)]
pub struct Registry {
    host: String,
    root: String,
    credentials: Option<Credentials>,
    agent: Agent,
    /// What let us in, by the scope that it was asked for.
    tokens: RefCell<HashMap<String, String>>,
}

/// One question.
pub(crate) struct Question<'q> {
    /// Behind `/v2/`.
    pub(crate) path: &'q str,
    /// The forms of an answer that we can read.
    pub(crate) accept: &'q str,
    /// What is wanted, a noun for messages.
    pub(crate) what: &'q str,
    /// Whose permission it takes, as tokens name it.
    pub(crate) scope: &'q str,
}

/// What came back.
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    /// The question for the page after this one, if there is one.
    pub(crate) next: Option<String>,
    /// The content's own name, where the registry says it.
    pub(crate) digest: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

impl Registry {
    /// The registry `host[:port]`, as these credentials; who may vouch for it says `trust`.
    #[must_use]
    pub fn new(host: &str, credentials: Option<Credentials>, trust: &Trust) -> Self {
        let config = Agent::config_builder()
            .tls_config(trust.tls())
            .timeout_global(Some(ANSWER_WITHIN))
            // What a refusal says is read too.
            .http_status_as_error(false)
            .user_agent(concat!("flow/", env!("CARGO_PKG_VERSION")));
        let listens = if host == PUBLIC.0 { PUBLIC.1 } else { host };
        let scheme = match is_here(host) && !trust.is_own() {
            true => "http",
            false => "https",
        };
        Self {
            host: host.to_owned(),
            root: format!("{scheme}://{listens}"),
            credentials,
            agent: config.build().into(),
            tokens: RefCell::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Asks, and reads the answer.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        question: &Question<'_>,
    ) -> Result<Answer<T>, RegistryError> {
        let mut answer = self.answer(question)?;
        let next = header(&answer, "link").and_then(|it| next(&it));
        let digest = header(&answer, "docker-content-digest");
        let text = self.read(&mut answer)?;
        let read = serde_json::from_slice(&text).map_err(|source| RegistryError::Strange {
            host: self.host.clone(),
            what: question.what.to_owned(),
            source,
        });
        Ok(Answer {
            value: read?,
            next,
            digest,
        })
    }

    /// Asks twice where the registry wants to know who asks.
    fn answer(&self, question: &Question<'_>) -> Result<Response<Body>, RegistryError> {
        let known = self.tokens.borrow().get(question.scope).cloned();
        let first = self.send(question, known.as_deref())?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return self.accepted(first, question);
        }
        let challenge = header(&first, "www-authenticate").and_then(|it| Challenge::parse(&it));
        let word = match challenge {
            Some(challenge) => self.password(&challenge, question)?,
            None => None,
        };
        let word = word.ok_or_else(|| self.forbidden(question))?;
        let second = self.send(question, Some(&word))?;
        let scope = question.scope.to_owned();
        self.tokens.borrow_mut().insert(scope, word);
        self.accepted(second, question)
    }

    fn send(
        &self,
        question: &Question<'_>,
        word: Option<&str>,
    ) -> Result<Response<Body>, RegistryError> {
        let url = format!("{}/v2/{}", self.root, question.path);
        let mut request = self.agent.get(url).header("accept", question.accept);
        if let Some(word) = word {
            request = request.header("authorization", word);
        }
        request.call().map_err(|source| self.silent(source))
    }

    /// The header that lets us in; none: we are nobody.
    fn password(
        &self,
        challenge: &Challenge,
        question: &Question<'_>,
    ) -> Result<Option<String>, RegistryError> {
        match challenge {
            Challenge::Basic => Ok(self.basic()),
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => {
                let scope = scope.as_deref().unwrap_or(question.scope);
                let token = self.token(realm, service.as_deref(), scope)?;
                Ok(token.map(|token| format!("Bearer {token}")))
            }
        }
    }

    fn basic(&self) -> Option<String> {
        let who = self.credentials.as_ref()?;
        let (name, password) = who.username.as_ref().zip(who.password.as_ref())?;
        let pair = STANDARD.encode(format!("{name}:{password}"));
        Some(format!("Basic {pair}"))
    }

    /// Asks for a token, in the name of nobody where we are nobody.
    fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<Option<String>, RegistryError> {
        if let Some(token) = self
            .credentials
            .as_ref()
            .and_then(|it| it.registrytoken.clone())
        {
            return Ok(Some(token));
        }
        let mut answer = match self.identity() {
            Some(identity) => self.exchange(realm, service, scope, identity)?,
            None => self.token_by_password(realm, service, scope)?,
        };
        if !answer.status().is_success() {
            return Ok(None);
        }
        let text = self.read(&mut answer)?;
        let token = serde_json::from_slice::<Token>(&text);
        Ok(token.ok().map(|it| it.token))
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
        if let Some(basic) = self.basic().filter(|_| self.may_know(realm)) {
            request = request.header("authorization", basic);
        }
        request.call().map_err(|source| self.silent(source))
    }

    /// What `docker login` got in place of a password.
    fn identity(&self) -> Option<&str> {
        self.credentials.as_ref()?.identitytoken.as_deref()
    }

    fn exchange(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        identity: &str,
    ) -> Result<Response<Body>, RegistryError> {
        if !self.may_know(realm) {
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
        sent.map_err(|source| self.silent(source))
    }

    /// Whether a password may be sent there: over TLS, as openly as to the registry itself, or without leaving
    /// this machine where the registry does not either.
    fn may_know(&self, realm: &str) -> bool {
        let open = realm.strip_prefix("http://");
        let open = open.map(|rest| rest.split('/').next().unwrap_or(rest));
        let is_here_too = is_here(&self.host) && open.is_some_and(is_here);
        realm.starts_with("https://")
            || realm.starts_with(&format!("{}/", self.root))
            || is_here_too
    }

    fn accepted(
        &self,
        answer: Response<Body>,
        question: &Question<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let (host, what) = (self.host.clone(), question.what.to_owned());
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.forbidden(question)),
            StatusCode::NOT_FOUND => Err(RegistryError::Missing { host, what }),
            status => Err(RegistryError::Refused {
                host,
                what,
                status: status.as_u16(),
            }),
        }
    }

    fn forbidden(&self, question: &Question<'_>) -> RegistryError {
        RegistryError::Forbidden {
            host: self.host.clone(),
            what: question.what.to_owned(),
        }
    }

    fn silent(&self, source: ureq::Error) -> RegistryError {
        let (host, source) = (self.host.clone(), Box::new(source));
        // TLS tells it through the socket, as one of its many errors.
        match source.to_string().contains("certificate") {
            true => RegistryError::Untrusted { host, source },
            false => RegistryError::Silent { host, source },
        }
    }

    fn read(&self, answer: &mut Response<Body>) -> Result<Vec<u8>, RegistryError> {
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_vec().map_err(|source| self.silent(source))
    }
}

/// Whether a registry is on this machine.
fn is_here(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.starts_with("127.") || name == "[::1]"
}

fn header(answer: &Response<Body>, name: &str) -> Option<String> {
    let value = answer.headers().get(name)?;
    value.to_str().ok().map(str::to_owned)
}

/// The path of the next page, behind `/v2/`: `</v2/_catalog?last=b&n=2>; rel="next"`.
fn next(link: &str) -> Option<String> {
    let (url, rest) = link.strip_prefix('<')?.split_once('>')?;
    let (_, path) = url.split_once("/v2/")?;
    rest.contains("next").then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        let root = |host: &str| Registry::new(host, None, &Trust::default()).root;
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
    fn a_password_goes_to_the_registry_or_over_tls_or_stays_here() {
        let may_know =
            |host: &str, realm: &str| Registry::new(host, None, &Trust::default()).may_know(realm);
        assert!(may_know("localhost:5000", "http://localhost:5000/token"));
        assert!(may_know("localhost:5000", "http://127.0.0.1:5001/token"));
        assert!(may_know("localhost:5000", "https://auth.example.com/token"));
        assert!(!may_know("localhost:5000", "http://auth.example.com/token"));
        assert!(!may_know(
            "localhost:5000",
            "http://localhost.example.com/token"
        ));
        assert!(!may_know("r.example.com", "http://localhost:5001/token"));
        assert!(!may_know("r.example.com", "http://r.example.com/token"));
    }

    #[test]
    fn a_page_names_the_next() {
        let path = next("</v2/_catalog?last=b&n=2>; rel=\"next\"");
        assert_eq!(path.as_deref(), Some("_catalog?last=b&n=2"));
        assert_eq!(next("nonsense"), None);
    }
}
