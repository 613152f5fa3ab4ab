//! The OpenAPI document at `/openapi.json`: every route that the flow serves to clients, with the schemas of bodies, and a
//! page at `/docs` that lists the routes and sends requests.
//!
//! Stock clients read the list of its paths to choose a route, so it lists only what the flow serves. The data of the
//! console is for its page alone, and not in the document.

mod classify;
mod cohere;
mod document;
mod jina;
mod open_inference;
mod openai;
mod page;
mod rerank;
mod served;
mod tei;
#[cfg(test)]
mod tests;
mod texts;

use axum::extract::Request;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use flow_core::{CallOptions, Failure, ModelKind};
use serde_json::{Value, json};

use self::document::Document;
use self::served::{ModelNames, Served};
use super::models::ServedModels;
use super::state::{HttpState, options};
use super::status::failed;
use crate::auth::KeysFor;

/// Version of OpenAPI.
const OPENAPI: &str = "3.1.0";

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/openapi.json", get(answer))
        .merge(page::routes())
}

async fn answer(State(state): State<HttpState>, request: Request) -> Response {
    let described = match options(&request) {
        Ok(options) => describe(&state, &options).await,
        Err(failure) => Err(failure),
    };
    match described {
        Ok(document) => Json(document).into_response(),
        Err(failure) => failed(&failure),
    }
}

async fn describe(state: &HttpState, options: &CallOptions) -> Result<Value, Failure> {
    let offered = state.service.ask_offered(options).await?;
    let models = ServedModels::of(&state.service.snapshot()).await;
    let names = |kind| {
        let of_kind = models.of_kind(kind);
        let names = of_kind.map(|it| models.name_of(it).to_owned());
        names.collect()
    };
    let names = ModelNames {
        encoders: names(ModelKind::Embedding),
        rerankers: names(ModelKind::Reranker),
        classifiers: names(ModelKind::Classifier),
        sparse_encoders: names(ModelKind::SparseEmbedding),
    };
    let served = Served::new(&state.options, &offered, names, state.keys);
    Ok(document(&served))
}

/// The document.
fn document(served: &Served<'_>) -> Value {
    let mut document = Document::new(served.keys);
    openai::describe(&mut document, served);
    tei::describe(&mut document, served);
    cohere::describe(&mut document, served);
    rerank::describe(&mut document, served);
    classify::describe(&mut document, served);
    open_inference::describe(&mut document, served);
    jina::describe(&mut document, served);
    let (paths, components) = document.into_parts();
    let mut document = json!({
        "openapi": OPENAPI,
        "info": info(served),
        "paths": paths,
        "components": components,
    });
    if served.keys != KeysFor::Nothing {
        document["security"] = json!([{ "bearer": [] }, { "key": [] }]);
    }
    document
}

fn info(served: &Served<'_>) -> Value {
    let mut info = json!({
        "title": served.options.title.as_deref().unwrap_or("flow"),
        "version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(description) = &served.options.description {
        info["description"] = json!(description);
    }
    info
}
