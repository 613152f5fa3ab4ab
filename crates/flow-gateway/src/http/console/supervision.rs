//! The routes that ask the supervisor: what the client may, the processes, the flow file, logs, and changes of the flow.

use std::time::Duration;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;

use super::rights::{Permission, PermissionDenied, Permissions, Requester};
use crate::http::state::HttpState;
use crate::http::status::detail;
use crate::origin::origin;
use crate::supervisor::{Action, LogQuery, SupervisorError};

/// Longest description of an action: names have at most some hundred bytes.
const ACTION_LEN_MAX: usize = 4 << 10;

/// Time for a page to send it.
const ACTION_WITHIN: Duration = Duration::from_secs(10);

/// Most replicas that the console asks for: more are likely a mistake, and each takes memory. `flow scale` has no limit.
const REPLICAS_MAX: u16 = 64;

/// What the client may do.
pub(super) async fn rights(State(state): State<HttpState>, request: Request) -> Response {
    let asker = Requester::of(&state, &request).await;
    Json(Permissions::of(&state, &asker)).into_response()
}

/// The processes of the flow.
pub(super) async fn processes(State(state): State<HttpState>, request: Request) -> Response {
    let asker = Requester::of(&state, &request).await;
    match asker.demand(Permission::Actions, &state) {
        Ok(()) => answer(state.operations.processes().await),
        Err(why) => forbidden(&why),
    }
}

/// How the flow file differs from what the flow follows.
pub(super) async fn flow_file(State(state): State<HttpState>, request: Request) -> Response {
    let asker = Requester::of(&state, &request).await;
    match asker.demand(Permission::Actions, &state) {
        Ok(()) => answer(state.operations.flow_file().await),
        Err(why) => forbidden(&why),
    }
}

/// Entries of the logs.
pub(super) async fn logs(State(state): State<HttpState>, request: Request) -> Response {
    let asker = Requester::of(&state, &request).await;
    if let Err(why) = asker.demand(Permission::Logs, &state) {
        return forbidden(&why);
    }
    let query = match Query::<LogQuery>::try_from_uri(request.uri()) {
        Ok(Query(query)) if query.is_short() => query,
        Ok(_) => return detail(StatusCode::BAD_REQUEST, "the query is too long"),
        Err(error) => return detail(StatusCode::BAD_REQUEST, &error.body_text()),
    };
    answer(state.operations.search_logs(query).await)
}

/// Changes the flow.
///
/// No snapshot may be held here: a change ends when no request uses the placement before it.
pub(super) async fn act(State(state): State<HttpState>, request: Request) -> Response {
    let asker = Requester::of(&state, &request).await;
    if let Err(why) = asker.demand(Permission::Actions, &state) {
        return forbidden(&why);
    }
    let origin = origin(request.extensions(), "http", "POST /_console/api/actions");
    let action = match read_action(request).await {
        Ok(action) => action,
        Err((status, why)) => return detail(status, &why),
    };
    tracing::info!(
        %action,
        client = origin.client.map(tracing::field::display),
        key = origin.key.as_deref(),
        "console action started"
    );
    let done = state.operations.change(action).await;
    answer(done.map(|said| json!({ "said": said })))
}

async fn read_action(request: Request) -> Result<Action, (StatusCode, String)> {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        let why = "an action is JSON, with the type `application/json`";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why.to_owned()));
    }
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let body = timeout(ACTION_WITHIN, to_bytes(request.into_body(), ACTION_LEN_MAX)).await;
    let body =
        body.map_err(|_| bad(format!("the action did not come within {ACTION_WITHIN:?}")))?;
    let body = body.map_err(|_| bad(format!("an action has at most {ACTION_LEN_MAX} bytes")))?;
    let action = serde_json::from_slice(&body);
    let action = action.map_err(|error| bad(format!("invalid action: {error}")))?;
    match action {
        Action::Scale { replicas, .. } if replicas.get() > REPLICAS_MAX => Err(bad(format!(
            "the console starts at most {REPLICAS_MAX} replicas; `flow scale` starts more"
        ))),
        action => Ok(action),
    }
}

fn forbidden(why: &PermissionDenied) -> Response {
    detail(StatusCode::FORBIDDEN, &why.to_string())
}

fn answer<T: Serialize>(outcome: Result<T, SupervisorError>) -> Response {
    match outcome {
        Ok(found) => Json(found).into_response(),
        Err(why) => {
            let status = match why {
                SupervisorError::Refused(_) => StatusCode::CONFLICT,
                SupervisorError::Busy => StatusCode::TOO_MANY_REQUESTS,
                SupervisorError::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            detail(status, &why.to_string())
        }
    }
}
