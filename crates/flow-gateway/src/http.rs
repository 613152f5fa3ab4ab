//! The gateway's HTTP routes. Each file of `http/` translates one API for `service.rs`, and decides nothing.
//!
//! Requests reach the routes over HTTP/1 and HTTP/2, on the same port as gRPC calls. What the APIs share is here and in
//! these files: [`body`] reads a request's body within the limits, [`status`] maps failures to status codes, and
//! [`request_id`] gives every request an id. Around all routes are layers for other origins ([`cors`]), for compression
//! ([`compressed_reply`]), and for gRPC calls of browsers ([`grpc_web`]). [`console`] is a page for people.

pub(crate) mod api_error;
mod body;
mod classify;
mod cohere;
mod compressed_reply;
mod console;
mod cors;
pub(crate) mod embeddings;
mod grpc_web;
mod jina;
mod json_request;
pub(crate) mod model_call;
pub(crate) mod models;
pub(crate) mod open_inference;
mod openai;
mod openapi;
mod parse_memory;
mod prompts;
mod request_id;
mod rerank;
pub(crate) mod response_status;
mod state;
mod status;
mod tei;
mod text_input;
mod token_input;
mod truncation;
mod vector_format;
mod web_page;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use flow_net::GrpcRoutes;
use tonic::service::Routes;
use tower_http::decompression::RequestDecompressionLayer;

use self::grpc_web::GrpcWebLayer;
use self::status::detail;

pub(crate) use state::{HttpParts, HttpState, PortProtocols};

/// All HTTP routes of a gateway; `None` if the port has none. `grpc` answers the gRPC calls of browsers.
pub(crate) fn routes(state: HttpState, grpc: GrpcRoutes) -> Option<Routes> {
    let PortProtocols {
        http, websocket, ..
    } = state.serves;
    if !http && !websocket {
        return None;
    }
    let mut router = jina::routes(&state);
    if state.has_console {
        router = router.merge(console::routes());
    }
    router = match http {
        true => router
            .merge(openapi::routes())
            .merge(other_apis(&state))
            .fallback(jina::endpoint)
            .method_not_allowed_fallback(jina::endpoint),
        false => router.fallback(not_http),
    };
    let grpc_web = state.serves.grpc.then_some(grpc);
    let (options, spawner) = (state.options.clone(), state.spawner.clone());
    let is_traced = state.service.snapshot().shared.tracer.is_some();
    // The first is the outermost. They are added together, because the router calls what is added by itself through a box.
    let layers = (
        from_fn(request_id::identify),
        cors::layer(&options.cors),
        from_fn_with_state(spawner, compressed_reply::elsewhere),
        compressed_reply::layer(),
        from_fn(compressed_reply::mark_large),
        from_fn(body::mark_compressed),
        RequestDecompressionLayer::new(),
        GrpcWebLayer(grpc_web),
    );
    let router = router.with_state(state).layer(layers);
    let router = match is_traced {
        true => router.layer(from_fn(response_status::record)),
        false => router,
    };
    Some(Routes::from(router))
}

/// The routes of APIs beside Jina's. An endpoint that an executor offers by the same name comes before them.
fn other_apis(state: &HttpState) -> Router<HttpState> {
    Router::new()
        .merge(openai::routes())
        .merge(tei::routes())
        .merge(cohere::routes())
        .merge(open_inference::routes())
        .layer(from_fn_with_state(state.clone(), jina::endpoint_first))
}

async fn not_http() -> Response {
    let text = "this port serves WebSocket at `/` only, because of `only_protocols`";
    detail(StatusCode::NOT_FOUND, text)
}
