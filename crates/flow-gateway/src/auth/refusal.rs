//! Responses to refused requests, in the format of the API that the client calls.

use std::time::Duration;

use flow_core::{Code, Failure};
use flow_net::{GrpcService, HttpService};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::bad_token::{BadToken, RETRY_EVERY};
use crate::metrics::RefusalReason;

/// The body of every response.
pub(super) type Body = <GrpcService as HttpService>::Body;

/// The API that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Grpc,
    OpenAi,
    Cohere,
    /// text-embeddings-inference's.
    Tei,
    OpenInference,
    /// Jina's, and all others: endpoints, the console and the OpenAPI document.
    Jina,
}

impl Api {
    /// The API of an HTTP path.
    pub(super) fn of_path(path: &str) -> Self {
        match path {
            "/v2/embed" | "/v2/rerank" | "/v1/rerank" => Self::Cohere,
            "/embed" | "/embed_all" | "/embed_sparse" | "/predict" | "/rerank" | "/similarity"
            | "/tokenize" | "/decode" | "/info" | "/health" | "/ping" => Self::Tei,
            "/v2" => Self::OpenInference,
            _ if path.starts_with("/v2/") => Self::OpenInference,
            _ if path.starts_with("/v1/") => Self::OpenAi,
            _ => Self::Jina,
        }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no key in it.
    NoKey,
    /// The key is unknown, or was revoked.
    UnknownKey,
    /// The key has expired.
    Expired { title: String },
    /// The key or the token does not allow the path.
    Forbidden { title: String, path: String },
    /// There are too many requests of the key.
    TooMany { title: String, after: Duration },
    /// The token is not valid, for this reason.
    BadToken(BadToken),
    /// The public keys of the identity provider were never read.
    NoProviderKeys,
}

impl Refusal {
    /// The response to the client.
    pub(super) fn response(&self, api: Api) -> Response<Body> {
        match api {
            Api::Grpc => flow_net::grpc::refusal(&self.failure()),
            api => self.http(api),
        }
    }

    fn failure(&self) -> Failure {
        let failure = Failure::new(self.code(), self.message());
        match self {
            Self::TooMany { after, .. } => failure.with_retry_after(*after),
            Self::NoProviderKeys => failure.with_retry_after(RETRY_EVERY),
            _ => failure,
        }
    }

    /// The reason, as it is counted.
    pub(super) fn reason(&self) -> RefusalReason {
        match self {
            Self::NoKey => RefusalReason::NoKey,
            Self::UnknownKey => RefusalReason::UnknownKey,
            Self::Expired { .. } => RefusalReason::ExpiredKey,
            Self::Forbidden { .. } => RefusalReason::Forbidden,
            Self::TooMany { .. } => RefusalReason::RequestsPerSecond,
            Self::BadToken(_) => RefusalReason::InvalidToken,
            Self::NoProviderKeys => RefusalReason::IdentityProvider,
        }
    }

    fn code(&self) -> Code {
        self.reason().code()
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::NoKey => {
                "this gateway needs an API key or a token: send it as `authorization: Bearer KEY` or `x-api-key: KEY`"
                    .to_owned()
            }
            Self::UnknownKey => "the API key is not known here, or was revoked".to_owned(),
            Self::Expired { title } => format!("{title} has expired"),
            Self::Forbidden { title, path } => format!("{title} does not allow `{path}`"),
            Self::TooMany { title, after } => {
                let seconds = seconds(*after);
                format!("too many requests with {title}; try again in {seconds} s")
            }
            Self::BadToken(reason) => format!("the token is not valid: {reason}"),
            Self::NoProviderKeys => {
                "tokens cannot be checked: the keys of the identity provider cannot be read"
                    .to_owned()
            }
        }
    }

    fn http(&self, api: Api) -> Response<Body> {
        let body = self.body(api).to_string();
        let mut response = Response::new(Body::new(http_body_util::Full::from(body)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        match self {
            Self::TooMany { after, .. } => {
                headers.insert(RETRY_AFTER, seconds(*after).into());
            }
            Self::NoProviderKeys => {
                headers.insert(RETRY_AFTER, seconds(RETRY_EVERY).into());
            }
            Self::BadToken(reason) => {
                let challenge =
                    format!("Bearer error=\"invalid_token\", error_description=\"{reason}\"");
                if let Ok(challenge) = HeaderValue::from_str(&challenge) {
                    headers.insert(WWW_AUTHENTICATE, challenge);
                }
            }
            Self::Forbidden { .. } => {}
            Self::NoKey | Self::UnknownKey | Self::Expired { .. } => {
                let bearer = HeaderValue::from_static("Bearer");
                headers.insert(WWW_AUTHENTICATE, bearer);
            }
        }
        response
    }

    fn status(&self) -> StatusCode {
        match self.code() {
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNAUTHORIZED,
        }
    }

    fn body(&self, api: Api) -> Value {
        let message = self.message();
        let (kind, code, tei) = match self.code() {
            Code::Forbidden => ("permission_error", "insufficient_permissions", "Forbidden"),
            Code::Overloaded => ("requests", "rate_limit_exceeded", "Overloaded"),
            Code::Unavailable => ("server_error", "service_unavailable", "Unhealthy"),
            _ => ("invalid_request_error", "invalid_api_key", "Unauthorized"),
        };
        match api {
            Api::OpenAi => json!({
                "error": { "message": message, "type": kind, "param": null, "code": code }
            }),
            Api::Cohere => json!({ "message": message }),
            Api::Tei => json!({ "error": message, "error_type": tei }),
            Api::OpenInference => json!({ "error": message }),
            Api::Grpc | Api::Jina => json!({ "detail": message }),
        }
    }
}

/// Whole seconds, not too few.
fn seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_has_its_own_error_format() {
        let refusal = Refusal::UnknownKey;
        let message = refusal.message();
        let check = |path: &str, expected: Value| {
            assert_eq!(refusal.body(Api::of_path(path)), expected, "{path}");
        };
        let error = json!({
            "message": message,
            "type": "invalid_request_error",
            "param": null,
            "code": "invalid_api_key",
        });
        check("/v1/embeddings", json!({ "error": error }));
        check("/v2/embed", json!({ "message": message }));
        check(
            "/embed",
            json!({ "error": message, "error_type": "Unauthorized" }),
        );
        check("/v2/models/m/infer", json!({ "error": message }));
        for path in ["/post", "/encode", "/status", "/", "/openapi.json"] {
            check(path, json!({ "detail": message }));
        }
    }

    #[test]
    fn a_status_says_what_to_do() {
        let title = || "the API key `a`".to_owned();
        let after = Duration::from_millis(1500);
        let check = |refusal: Refusal, status: u16, header: Option<(&str, &str)>| {
            let response = refusal.http(Api::Tei);
            assert_eq!(response.status().as_u16(), status, "{refusal:?}");
            for known in ["retry-after", "www-authenticate"] {
                let found = response.headers().get(known).map(|it| it.to_str().unwrap());
                let expected = header.filter(|(key, _)| *key == known).map(|(_, it)| it);
                assert_eq!(found, expected, "{refusal:?}");
            }
        };
        let bearer = Some(("www-authenticate", "Bearer"));
        check(Refusal::NoKey, 401, bearer);
        check(Refusal::UnknownKey, 401, bearer);
        check(Refusal::Expired { title: title() }, 401, bearer);
        let path = "/x".to_owned();
        check(
            Refusal::Forbidden {
                title: title(),
                path,
            },
            403,
            None,
        );
        let many = Refusal::TooMany {
            title: title(),
            after,
        };
        check(many, 429, Some(("retry-after", "2")));
        check(Refusal::NoProviderKeys, 503, Some(("retry-after", "10")));
        let invalid = "Bearer error=\"invalid_token\", error_description=\"it has expired\"";
        let bad = Refusal::BadToken(BadToken::Expired);
        check(bad, 401, Some(("www-authenticate", invalid)));
    }
}
