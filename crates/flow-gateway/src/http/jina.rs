//! Jina's HTTP and WebSocket gateways, of both versions of DocArray.
//!
//! [`route`] chooses the endpoint of a request. There are routes of two kinds: those of Jina's gateway for the first
//! version of DocArray, such as `/post` and `/search`, and one for each endpoint that executors offer, as Jina's gateway
//! for the second version has them. A request on either may hold documents of either version: [`request`] says how that is
//! decided, and [`reply`] which form the reply has.

mod call;
mod events;
mod reply;
mod request;
mod route;
mod websocket;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use flow_proto::jina::JinaInfoProto;
use http::Method;
use serde_json::{Value, json};

use self::route::{Route, route};
use super::console;
use super::state::{HttpState, options};
use super::status::{detail, failed, status_json};
use crate::console::page::wants_page;

pub(super) use self::route::{CRUD, POST};

/// The routes that do not depend on the executors.
pub(crate) fn routes(state: &HttpState) -> Router<HttpState> {
    let serves = state.serves;
    let mut router = Router::new().route("/", get(root));
    if !state.options.no_debug_endpoints {
        router = router.route("/status", get(info));
        router = match (serves.http, serves.websocket) {
            (_, true) => router.route("/dry_run", get(dry_run_or_socket)),
            (_, false) => router.route("/dry_run", get(dry_run)),
        };
    }
    router
}

/// Answers everything that has no route of its own: calls of endpoints.
pub(crate) async fn endpoint(State(state): State<HttpState>, request: Request) -> Response {
    let offered = state.service.offered();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match route(&method, &path, &state.options, &offered) {
        Ok(Route::Call(call)) => call::answer(&state, call, offered.version(), request).await,
        Ok(Route::Stream(endpoint)) => {
            events::answer(&state, endpoint, offered.version(), request).await
        }
        Err(refusal) => detail(refusal.status, &refusal.text),
    }
}

/// Calls the endpoint of a path that another API has too, if an executor offers it by this name. Executors that report
/// models are called through the API: their endpoints of these names are there for it.
pub(crate) async fn endpoint_first(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let offered = state.service.offered();
    let path = request.uri().path();
    match *request.method() == Method::POST
        && offered.names().contains(path)
        && !offered.has_models()
    {
        true => endpoint(State(state), request).await,
        false => next.run(request).await,
    }
}

/// The health of the service, the beginning of a WebSocket, or the console for a browser.
async fn root(State(state): State<HttpState>, request: Request) -> Response {
    if state.serves.websocket && websocket::is_upgrade(request.headers()) {
        return websocket::requests(state, request).await;
    }
    if state.has_console && wants_page(request.headers()) {
        return console::page();
    }
    Json(json!({})).into_response()
}

async fn info(State(state): State<HttpState>) -> Json<Value> {
    let JinaInfoProto { jina, envs } = state.service.status();
    Json(json!({ "jina": jina, "envs": envs }))
}

async fn dry_run_or_socket(State(state): State<HttpState>, request: Request) -> Response {
    match websocket::is_upgrade(request.headers()) {
        true => websocket::dry_run(state, request).await,
        false => dry_run(State(state), request).await,
    }
}

async fn dry_run(State(state): State<HttpState>, request: Request) -> Response {
    let options = options(&request);
    let status = async { state.service.dry_run(options?).await };
    match status.await {
        Ok(status) => Json(status_json(&status)).into_response(),
        Err(failure) => failed(&failure),
    }
}
