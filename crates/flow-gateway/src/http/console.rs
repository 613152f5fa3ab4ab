//! The console: a page for browsers that shows the running flow, and the data that it asks for.
//!
//! The page is made of files of this program and fetches nothing from elsewhere. Its data is for the page alone:
//! [`same_origin`] refuses what other web sites make a browser ask for. Logs and changes of the flow come from the
//! supervisor ([`supervision`]) and need a right of their own ([`rights`]).

mod endpoints;
mod flow;
mod overview;
mod rights;
mod same_origin;
mod same_user;
mod supervision;

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::header::{CACHE_CONTROL, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use self::endpoints::Known;
use self::flow::FlowReport;
use self::overview::Overview;
use self::rights::Permission;
use super::state::HttpState;
use super::status::detail;
use super::web_page;
use crate::auth;
use crate::console::{History, KeptRequest, SlotReport, seconds};
use crate::snapshot::Snapshot;

/// What the page may load and do: its own files and data, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const PAGE: &str = include_str!("console/page/index.html");

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page by their names, with their types.
const FILES: [(&str, &str, &str); 15] = [
    (
        "style.css",
        "text/css; charset=utf-8",
        include_str!("console/page/style.css"),
    ),
    (
        "icon.svg",
        "image/svg+xml",
        include_str!("console/page/icon.svg"),
    ),
    ("app.js", JAVASCRIPT, include_str!("console/page/app.js")),
    ("api.js", JAVASCRIPT, include_str!("console/page/api.js")),
    ("dom.js", JAVASCRIPT, include_str!("console/page/dom.js")),
    (
        "units.js",
        JAVASCRIPT,
        include_str!("console/page/units.js"),
    ),
    (
        "graph.js",
        JAVASCRIPT,
        include_str!("console/page/graph.js"),
    ),
    (
        "nodes.js",
        JAVASCRIPT,
        include_str!("console/page/nodes.js"),
    ),
    (
        "charts.js",
        JAVASCRIPT,
        include_str!("console/page/charts.js"),
    ),
    (
        "requests.js",
        JAVASCRIPT,
        include_str!("console/page/requests.js"),
    ),
    (
        "processes.js",
        JAVASCRIPT,
        include_str!("console/page/processes.js"),
    ),
    ("logs.js", JAVASCRIPT, include_str!("console/page/logs.js")),
    ("try.js", JAVASCRIPT, include_str!("console/page/try.js")),
    ("code.js", JAVASCRIPT, include_str!("console/page/code.js")),
    (
        "about.js",
        JAVASCRIPT,
        include_str!("console/page/about.js"),
    ),
];

/// The files and the data of the page. `GET /` with [`page`] is among Jina's routes.
pub(super) fn routes() -> Router<HttpState> {
    let data = Router::new()
        .route("/_console/api/overview", get(overview))
        .route("/_console/api/history", get(history))
        .route("/_console/api/requests", get(requests))
        .route("/_console/api/endpoints", get(known))
        .route("/_console/api/flow", get(flow))
        .route("/_console/api/rights", get(supervision::rights))
        .route("/_console/api/processes", get(supervision::processes))
        .route("/_console/api/flow-file", get(supervision::flow_file))
        .route(Permission::Logs.path(), get(supervision::logs))
        .route(Permission::Actions.path(), post(supervision::act))
        .route_layer(from_fn(for_page_only));
    let files = Router::new().route("/_console/{file}", get(file));
    data.merge(files)
}

/// The page.
pub(super) fn page() -> Response {
    let mut response = of_page("text/html; charset=utf-8", PAGE);
    // Other clients get something else at the same path.
    let accept = HeaderValue::from_static("accept");
    response.headers_mut().append(VARY, accept);
    response
}

async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => of_page(kind, text),
        None => detail(StatusCode::NOT_FOUND, "the console has no such file"),
    }
}

/// A file of the page, with the headers that keep others out of it.
fn of_page(kind: &'static str, text: &'static str) -> Response {
    let mut response = web_page::file(kind, POLICY, text);
    for name in [OPENER_POLICY, RESOURCE_POLICY] {
        let same_origin = HeaderValue::from_static("same-origin");
        response.headers_mut().insert(name, same_origin);
    }
    response
}

/// Refuses requests that do not come from the page.
async fn for_page_only(request: Request, next: Next) -> Response {
    let has_key = auth::current().is_some();
    if let Err(why) = same_origin::check(request.headers(), request.uri(), has_key) {
        return detail(StatusCode::FORBIDDEN, why);
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Answers with what the history and the newest snapshot say.
fn answer<T: Serialize>(
    state: &HttpState,
    say: impl FnOnce(&History, &Snapshot, SystemTime) -> T,
) -> Response {
    let snapshot = state.service.snapshot();
    match snapshot.shared.log.history() {
        Some(history) => Json(say(history, &snapshot, SystemTime::now())).into_response(),
        None => detail(StatusCode::NOT_FOUND, "this gateway has no console"),
    }
}

async fn overview(State(state): State<HttpState>) -> Response {
    answer(&state, Overview::of)
}

async fn flow(State(state): State<HttpState>) -> Response {
    answer(&state, FlowReport::of)
}

/// What to report of the last hour.
#[derive(Debug, Deserialize)]
struct HistoryQuery {
    /// A node; without it, the flow.
    node: Option<String>,
    /// The first slot; without it, all.
    #[serde(default)]
    since: u64,
}

#[derive(Debug, Serialize)]
struct HistoryReport {
    /// The length of a slot. Slot n begins n times this after 1970.
    slot_s: f64,
    /// Slots of an hour.
    slots: usize,
    now_s: f64,
    /// The slots with requests, the oldest first.
    used: Vec<SlotReport>,
}

async fn history(State(state): State<HttpState>, Query(query): Query<HistoryQuery>) -> Response {
    answer(&state, |history, _, now| {
        let (slot, slots) = History::resolution();
        HistoryReport {
            slot_s: slot.as_secs_f64(),
            slots,
            now_s: seconds(now),
            used: history.since(query.node.as_deref(), query.since, now),
        }
    })
}

#[derive(Debug, Serialize)]
struct RequestsReport {
    /// The newest first.
    failures: Vec<KeptRequestJson>,
    /// Those of the last hour, the slowest first.
    slow: Vec<KeptRequestJson>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct KeptRequestJson(#[serde(serialize_with = "serialize_kept")] Arc<KeptRequest>);

fn serialize_kept<S: serde::Serializer>(
    kept: &Arc<KeptRequest>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    kept.as_ref().serialize(serializer)
}

async fn requests(State(state): State<HttpState>) -> Response {
    answer(&state, |history, _, now| {
        let (failures, slow) = history.kept(now);
        RequestsReport {
            failures: failures.into_iter().map(KeptRequestJson).collect(),
            slow: slow.into_iter().map(KeptRequestJson).collect(),
        }
    })
}

async fn known(State(state): State<HttpState>) -> Response {
    Json(Known::ask(&state.service.snapshot()).await).into_response()
}
