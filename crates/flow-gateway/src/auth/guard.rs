//! Checks the API key or the token of every request of a port before its body is read, whatever the protocol.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::SystemTime;

use flow_net::{ConnectionHandle, GrpcService, HttpService};
use futures_util::future::{BoxFuture, Either};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use tokio::task::futures::TaskLocalFuture;

use super::credentials::AcceptedCredentials;
use super::identity::{CURRENT, Identity};
use super::key_ring::Key;
use super::refusal::{Api, Body, Refusal};
use crate::console::page;
use crate::docs;

/// The header that some clients send the key in, instead of `authorization`.
const API_KEY: &str = "x-api-key";

/// The path of gRPC's health checks begins with this.
const GRPC_HEALTH: &str = "/grpc.health.v1.Health/";

/// Streams of calls, whose requests are counted one by one.
const STREAM: &str = "/jina.JinaRPC/Call";
const INFER_STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// Health checks of the Open Inference Protocol.
const INFER_HEALTH: [&str; 2] = [
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
];

/// The paths of gRPC calls whose requests name an endpoint, which is checked instead of the path.
const NAMES_ENDPOINT: &[&str] = &[
    STREAM,
    flow_net::grpc::SINGLE_DATA,
    "/jina.JinaSingleDocumentRequestRPC/stream_doc",
];

/// The beginnings of the paths of gRPC calls that tell something of the flow, and run no endpoint.
const INFORMS: &[&str] = &[
    GRPC_HEALTH,
    "/grpc.reflection.",
    "/jina.JinaDiscoverEndpointsRPC/",
    "/jina.JinaGatewayDryRunRPC/",
    "/jina.JinaInfoRPC/",
    "/inference.GRPCInferenceService/Server",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelReady",
];

/// A response that is being made.
type Answer = <GrpcService as HttpService>::Future;

/// The same, on behalf of the sender of the request if the request has a key or a token.
type MaybeIdentified = Either<Answer, TaskLocalFuture<Identity, Answer>>;

type Outcome = Result<Response<Body>, Infallible>;

/// A service that lets in only requests whose key allows them.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    service: GrpcService,
    /// `None` if every client may send everything.
    credentials: Option<Arc<AcceptedCredentials>>,
    open: Open,
}

/// Requests that need no key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    /// Checks of health.
    pub(crate) health: bool,
    /// The page of the console, but not its data.
    pub(crate) page: bool,
}

/// Which HTTP requests need an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeysFor {
    Nothing,
    AllButHealth,
    Everything,
}

impl KeysFor {
    /// Whether requests at this path do.
    pub(crate) fn are_needed(self, path: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::AllButHealth => !is_health(Api::of_path(path), path),
            Self::Everything => true,
        }
    }
}

impl Guarded {
    pub(crate) fn new(
        service: GrpcService,
        credentials: Option<Arc<AcceptedCredentials>>,
        open: Open,
    ) -> Self {
        Self {
            service,
            credentials,
            open,
        }
    }

    /// Counts and logs a request that is refused.
    fn note(&self, request: &Request<Incoming>, refusal: &Refusal) {
        let Some(credentials) = &self.credentials else {
            return;
        };
        credentials.count_refusal(refusal.reason());
        let connection = request.extensions().get::<ConnectionHandle>();
        let client = connection.and_then(ConnectionHandle::client);
        credentials
            .log
            .refusal(client, request.uri().path(), refusal);
    }

    /// Whose request it is; `None` if it needs no key.
    fn identity(&self, request: &Request<Incoming>, api: Api) -> Result<Option<Identity>, Refusal> {
        let Some(credentials) = &self.credentials else {
            return Ok(None);
        };
        let (method, path) = (request.method(), request.uri().path());
        // A browser asks what it may send before it sends a key.
        let is_preflight = api != Api::Grpc && method == Method::OPTIONS;
        let is_console = self.open.page && page::is_page(method, path, request.headers());
        let is_page = api != Api::Grpc && (is_console || docs::is_page(method, path));
        let is_open = (self.open.health && is_health(api, path)) || is_page;
        if is_preflight || is_open {
            return Ok(None);
        }
        let text = key(request.headers()).ok_or(Refusal::NoKey)?;
        let key = credentials.find(text)?;
        let checked = check(&key, api, path);
        match &checked {
            // The requests of a stream are counted one by one.
            Ok(_) if is_stream(path) => {}
            Ok(_) => key.counters.accepted.add(1),
            Err(_) => key.counters.refused.add(1),
        }
        let is_path_allowed = checked?;
        Ok(Some(Identity {
            key,
            is_path_allowed,
        }))
    }
}

impl HttpService for Guarded {
    type Body = Body;
    type Future = Either<Either<MaybeIdentified, Ready<Outcome>>, BoxFuture<'static, Outcome>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let api = match flow_net::grpc::is_call(request.headers()) {
            true => Api::Grpc,
            false => Api::of_path(request.uri().path()),
        };
        let checked = self.identity(&request, api);
        let asking = match (&checked, &self.credentials) {
            (Err(refusal), Some(credentials)) => credentials.ask_provider(refusal),
            _ => None,
        };
        let Some(asking) = asking else {
            return Either::Left(self.answer(request, api, checked));
        };
        // The identity provider may have new keys.
        let this = self.clone();
        Either::Right(Box::pin(async move {
            asking.await;
            let checked = this.identity(&request, api);
            this.answer(request, api, checked).await
        }))
    }
}

impl Guarded {
    /// Lets a request in, or refuses it.
    fn answer(
        &self,
        mut request: Request<Incoming>,
        api: Api,
        checked: Result<Option<Identity>, Refusal>,
    ) -> Either<MaybeIdentified, Ready<Outcome>> {
        match checked {
            Ok(None) => Either::Left(Either::Left(self.service.call(request))),
            Ok(Some(identity)) => {
                // The key must not appear in the log of anything that handles the request.
                request.headers_mut().remove(AUTHORIZATION);
                request.headers_mut().remove(API_KEY);
                request.extensions_mut().insert(identity.clone());
                let answer = CURRENT.sync_scope(identity.clone(), || self.service.call(request));
                Either::Left(Either::Right(CURRENT.scope(identity, answer)))
            }
            Err(refusal) => {
                self.note(&request, &refusal);
                Either::Right(ready(Ok(refusal.response(api))))
            }
        }
    }
}

/// Whether the key allows the path by itself; its endpoint may still be allowed if not.
fn check(key: &Key, api: Api, path: &str) -> Result<bool, Refusal> {
    let title = || key.title();
    if key.is_expired(SystemTime::now()) {
        return Err(Refusal::Expired { title: title() });
    }
    let is_call = |paths: &[&str]| api == Api::Grpc && paths.iter().any(|it| path.starts_with(it));
    let is_allowed = key.entry.allows(path) || is_call(INFORMS);
    if !is_allowed && !is_call(NAMES_ENDPOINT) {
        let path = path.to_owned();
        return Err(Refusal::Forbidden {
            title: title(),
            path,
        });
    }
    if !is_stream(path) {
        let taken = key.take_request();
        taken.map_err(|after| Refusal::TooMany {
            title: title(),
            after,
        })?;
    }
    Ok(is_allowed)
}

/// Whether each request of a call is counted, and not the call.
fn is_stream(path: &str) -> bool {
    matches!(path, STREAM | INFER_STREAM)
}

fn is_health(api: Api, path: &str) -> bool {
    match api {
        Api::Grpc => path.starts_with(GRPC_HEALTH) || INFER_HEALTH.contains(&path),
        _ => matches!(
            path,
            "/health"
                | "/health/live"
                | "/health/ready"
                | "/ping"
                | "/v2/health/live"
                | "/v2/health/ready"
        ),
    }
}

/// The key of a request.
fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
    let bearer = bearer.and_then(|it| it.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let other = || headers.get(API_KEY)?.to_str().ok();
    bearer.map(|(_, key)| key.trim()).or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_bearer_token_or_a_header_of_its_own() {
        let found = |name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                value.parse().unwrap(),
            )]);
            key(&headers).map(str::to_owned)
        };
        assert_eq!(found("authorization", "Bearer a").as_deref(), Some("a"));
        assert_eq!(found("authorization", "bearer  a").as_deref(), Some("a"));
        assert_eq!(found("authorization", "Basic a"), None);
        assert_eq!(found("authorization", "a"), None);
        assert_eq!(found("x-api-key", "a").as_deref(), Some("a"));
        assert_eq!(found("cookie", "a"), None);
    }

    #[test]
    fn only_checks_of_health_are_open() {
        assert!(is_health(Api::Grpc, "/grpc.health.v1.Health/Check"));
        assert!(is_health(Api::Grpc, INFER_HEALTH[0]));
        assert!(is_health(Api::Tei, "/health") && is_health(Api::Tei, "/ping"));
        assert!(!is_health(Api::Tei, "/grpc.health.v1.Health/Check"));
        assert!(!is_health(Api::Grpc, "/health"));
        assert!(!is_health(Api::Tei, "/healthy") && !is_health(Api::Tei, "/"));
    }
}
