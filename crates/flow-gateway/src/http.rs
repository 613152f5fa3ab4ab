//! The gateway's HTTP routes. Each file of `http/` translates one API for `service.rs`, and decides nothing.
//!
//! Requests reach the routes over HTTP/1 and HTTP/2, on the same port as gRPC calls. What the APIs share is here and in two
//! files: [`body`] reads a request's body within the limits, and [`status`] maps failures to status codes.

mod api_error;
mod body;
mod cohere;
mod embeddings;
mod jina;
mod json_request;
mod models;
mod open_inference;
mod openai;
mod status;
mod tei;
mod text_input;
mod vector_format;

use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use flow_core::{CallOptions, Failure};
use flow_net::grpc::metadata::call_options;
use serde_json::json;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;

use crate::gateway_limits::GatewayLimits;
use crate::service::Service;

/// What every route has.
#[derive(Debug, Clone)]
pub(crate) struct HttpState {
    pub(crate) service: Service,
    pub(crate) limits: GatewayLimits,
}

/// All HTTP routes of a gateway.
pub(crate) fn routes(service: Service, limits: GatewayLimits) -> Routes {
    let router = Router::new()
        .merge(jina::routes())
        .merge(openai::routes())
        .merge(tei::routes())
        .merge(cohere::routes())
        .merge(open_inference::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(HttpState { service, limits });
    Routes::from(router)
}

/// The options of a call, from the headers of its request. They have the names of gRPC's metadata.
pub(crate) fn options(headers: &HeaderMap) -> Result<CallOptions, Failure> {
    call_options(&MetadataMap::from_headers(headers.clone()))
}

/// FastAPI's shape for errors, which clients of Jina expect.
fn detail(status: StatusCode, detail: &str) -> Response {
    (status, Json(json!({ "detail": detail }))).into_response()
}

async fn not_found(method: Method, uri: Uri) -> Response {
    let text = format!("there is no route for {method} {}", uri.path());
    detail(StatusCode::NOT_FOUND, &text)
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let text = format!("{} does not take {method} requests", uri.path());
    detail(StatusCode::METHOD_NOT_ALLOWED, &text)
}
