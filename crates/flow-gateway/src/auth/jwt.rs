//! Tokens of an identity provider: JSON Web Tokens that are signed with one of its keys.
//!
//! ```text
//! key_set.rs     the public keys of a JSON Web Key Set
//! provider.rs    reads them from a file or an address, again when they change
//! signatures.rs  verifies signatures, with ring
//! ```
//!
//! Only algorithms with public keys are accepted, and each key only with algorithms of its own type: a token cannot choose to be
//! checked as if a public key were a shared secret.

mod key_set;
mod provider;
mod signatures;

use std::time::{Duration, SystemTime};

use flow_spec::Jwt;
use futures_util::future::BoxFuture;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

use self::provider::Provider;
use super::bad_token::BadToken;
use super::key_ring::{Key, KeyCounters};
use super::refusal::Refusal;
use crate::metrics::GatewayMetrics;
use crate::shortened::shortened;

pub use self::provider::BadJwt;

/// By how much the clocks of the identity provider and of the gateway may differ, in seconds.
const LEEWAY_SECONDS: u64 = 30;

/// Keys that one token is checked with, at most: each check takes some ten microseconds, also for tokens of strangers.
const TRIES_MAX: usize = 8;

/// Longest name of a subject, in bytes. It is written to logs.
const SUBJECT_LEN_MAX: usize = 128;

/// Endpoints that the claim of a token may name.
const ENDPOINTS_MAX: usize = 256;

type Claims = Map<String, Value>;

/// The tokens that a gateway accepts.
#[derive(Debug)]
pub(super) struct Tokens {
    provider: Provider,
    /// What every token must have.
    validation: Validation,
    endpoints_claim: Option<String>,
    counters: KeyCounters,
    metrics: Option<GatewayMetrics>,
}

/// Reads the files that are needed to check tokens.
///
/// # Errors
///
/// If one cannot be used. What is at an address is not asked for.
pub fn check(jwt: &Jwt) -> Result<(), BadJwt> {
    Provider::load(&jwt.keys).map(drop)
}

/// Whether a credential is written like a token: three parts, of which the first is an object in base64.
pub(super) fn is_token(text: &str) -> bool {
    text.starts_with("eyJ") && text.split('.').count() == 3
}

impl Tokens {
    pub(super) fn load(jwt: &Jwt, metrics: Option<&GatewayMetrics>) -> Result<Self, BadJwt> {
        signatures::install();
        Ok(Self {
            provider: Provider::load(&jwt.keys)?,
            validation: validation(jwt),
            endpoints_claim: jwt.endpoints_claim.clone(),
            counters: KeyCounters::of_tokens(metrics),
            metrics: metrics.cloned(),
        })
    }

    /// What a token allows.
    pub(super) fn check(&self, text: &str) -> Result<Key, Refusal> {
        let keys = self.provider.keys().ok_or(Refusal::NoProviderKeys)?;
        let bad = Refusal::BadToken;
        // Also that of a token without a signature.
        let header = decode_header(text).map_err(|error| {
            tracing::debug!(%error, "the header of a token cannot be read");
            bad(BadToken::Unreadable)
        })?;
        let found = keys.find(header.kid.as_deref(), header.alg).map_err(bad)?;
        let validation = Validation {
            algorithms: vec![header.alg],
            ..self.validation.clone()
        };
        // A token without the id of its key may be signed with any of them, and so may every token if the keys have no ids.
        let is_named = header.kid.as_deref().is_some_and(|id| keys.has_id(id));
        let mut refusal = BadToken::UnknownKey;
        for key in found.take(TRIES_MAX) {
            match decode::<Claims>(text, key, &validation) {
                Ok(token) => return Ok(self.key(&token.claims)),
                Err(error) => match BadToken::of(&error) {
                    BadToken::Signature if !is_named => {}
                    BadToken::Signature => refusal = BadToken::Signature,
                    other => return Err(bad(other)),
                },
            }
        }
        Err(bad(refusal))
    }

    fn key(&self, claims: &Claims) -> Key {
        let subject = claims.get("sub").and_then(Value::as_str);
        let subject = subject.unwrap_or("unnamed").replace(char::is_control, "");
        let endpoints = self.endpoints_claim.as_deref();
        let endpoints = endpoints.map(|claim| endpoints_of(claims.get(claim)));
        let subject = shortened(&subject, SUBJECT_LEN_MAX);
        Key::of_token(
            subject,
            endpoints,
            expiry(claims),
            self.counters.clone(),
            self.metrics.clone(),
        )
    }

    /// Asks the identity provider for keys that it may have by now; `None` if it was asked a moment ago.
    pub(super) fn ask_provider(&self) -> Option<BoxFuture<'static, ()>> {
        self.provider.ask()
    }

    /// Keeps the keys up to date, until the future is dropped.
    pub(super) async fn follow(&self, look_every: Duration) -> std::convert::Infallible {
        self.provider.follow(look_every).await
    }
}

/// When a token expires, with the leeway for clocks that differ.
fn expiry(claims: &Claims) -> Option<SystemTime> {
    let seconds = claims.get("exp").and_then(Value::as_f64)?;
    let since_epoch = Duration::try_from_secs_f64(seconds).ok()?;
    let leeway = Duration::from_secs(LEEWAY_SECONDS);
    SystemTime::UNIX_EPOCH
        .checked_add(since_epoch)?
        .checked_add(leeway)
}

/// What every token must have.
fn validation(jwt: &Jwt) -> Validation {
    // The algorithms are those of each key.
    let mut validation = Validation::new(jsonwebtoken::Algorithm::EdDSA);
    let mut required = vec!["exp"];
    validation.leeway = LEEWAY_SECONDS;
    validation.validate_nbf = true;
    validation.validate_aud = jwt.audience.is_some();
    if let Some(audience) = &jwt.audience {
        validation.set_audience(&[audience]);
        required.push("aud");
    }
    if let Some(issuer) = &jwt.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// The endpoints of a claim: a list, or a text with spaces between them. What does not begin with `/` is no endpoint.
fn endpoints_of(claim: Option<&Value>) -> Vec<String> {
    let texts: Vec<&str> = match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let endpoints = texts.into_iter().filter(|it| it.starts_with('/'));
    endpoints.take(ENDPOINTS_MAX).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_has_three_parts_of_which_the_first_is_an_object() {
        assert!(is_token("eyJhbGciOiJub25lIn0.e30."));
        assert!(!is_token("flow_AAAA") && !is_token("eyJhbGciOiJub25lIn0") && !is_token("a.b.c"));
    }

    #[test]
    fn a_claim_lists_endpoints_or_has_them_in_a_text() {
        let found = |claim: Value| endpoints_of(Some(&claim));
        assert_eq!(found(json!("openid /encode /v1/*")), ["/encode", "/v1/*"]);
        assert_eq!(found(json!(["/a", 1, "b"])), ["/a"]);
        assert!(found(json!({"a": 1})).is_empty() && endpoints_of(None).is_empty());
    }
}
