//! The API of text-embeddings-inference.

mod compute_headers;
mod direction;
pub(super) mod embed_all;
mod embed_sparse;
mod errors;
mod info;
mod predict;
mod rerank;
pub(super) mod tokens;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use flow_core::ModelKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use self::compute_headers::{characters, compute_headers};
use self::direction::{Direction, truncation};
use self::errors::failed;
use super::api_error::{ApiError, ErrorKind};
use super::embeddings::{EmbedRequest, Embeddings, embed};
use super::json_request::{JsonRequest, json_reply};
use super::models::ServedModels;
use super::prompts;
use super::state::HttpState;
use super::text_input::TextInput;
use super::token_input::TokenInput;
use super::vector_format::VectorFormat;

/// The fields of `POST /embed`.
pub(super) const EMBED_FIELDS: &[&str] = &[
    "inputs",
    "truncate",
    "truncation_direction",
    "prompt_name",
    "normalize",
    "dimensions",
    "model",
];

#[cfg(test)]
pub(super) use embed_all::EMBED_ALL_FIELDS;
#[cfg(test)]
pub(super) use embed_sparse::EMBED_SPARSE_FIELDS;
#[cfg(test)]
pub(super) use predict::PREDICT_FIELDS;
#[cfg(test)]
pub(super) use rerank::RERANK_FIELDS;

pub(super) const SIMILARITY_FIELDS: &[&str] = &["inputs", "parameters", "model"];

/// The routes. `POST /` is that of Hugging Face's clients, which know only the address: it embeds, reranks or
/// classifies, depending on the models of the flow.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/", post(root))
        .route("/embed", post(embed_texts))
        .route("/similarity", post(similarity))
        .route("/tokenize", post(tokens::tokenize))
        .route("/decode", post(tokens::decode))
        .route("/embed_all", post(embed_all::embed_all))
        .route("/embed_sparse", post(embed_sparse::embed_sparse))
        .route("/predict", post(predict::predict))
        .route("/rerank", post(rerank::rerank_texts))
        .route("/info", get(info::info))
        .route("/health", get(health))
        .route("/ping", get(health))
}

/// The body of `POST /embed`. TEI has no `model`; here it chooses one of several.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EmbedBody {
    inputs: Option<TextInput>,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
    normalize: Option<bool>,
    dimensions: Option<usize>,
    model: Option<String>,
}

/// The body of `POST /similarity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SimilarityBody {
    inputs: Option<Sentences>,
    parameters: Option<SimilarityParameters>,
    model: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentences {
    source_sentence: String,
    sentences: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SimilarityParameters {
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
}

/// The vectors of a reply.
struct EmbedReply(Embeddings);

impl Serialize for EmbedReply {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let vectors = self.0.vectors.iter();
        serializer.collect_seq(vectors.map(|vector| VectorFormat::Float.of(vector)))
    }
}

async fn root(State(state): State<HttpState>, request: Request) -> Response {
    let models = ServedModels::of(&state.service.snapshot()).await;
    match models.first_kind() {
        Some(ModelKind::Reranker) => rerank::rerank_texts(State(state), request).await,
        Some(ModelKind::Classifier) => predict::predict(State(state), request).await,
        Some(ModelKind::SparseEmbedding) => embed_sparse::embed_sparse(State(state), request).await,
        _ => embed_texts(State(state), request).await,
    }
}

async fn embed_texts(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer_embed(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer_embed(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let mut request: JsonRequest<EmbedBody> =
        JsonRequest::read(state, request, EMBED_FIELDS).await?;
    let inputs = request.body.inputs()?;
    let models = ServedModels::of(&state.service.snapshot()).await;
    let model = models.find(ModelKind::Embedding, request.body.model.as_deref())?;
    let prompt = request.body.prompt_name.clone();
    let name = request.body.model.clone();
    let source = TokenInput {
        service: &state.service,
        model,
        name: name.as_deref(),
        field: "inputs",
    };
    let texts = source.texts(inputs, &mut request).await?;
    let mut wanted = request.body.translate(texts);
    if let Some(name) = prompt {
        prompts::choose(&mut wanted.parameters, model, &name)?;
    }
    let characters = characters(&wanted.texts);
    let embeddings = embed(&state.service, &models, model, wanted, &request.options).await?;
    let headers = compute_headers(model, characters, &embeddings.work);
    let len = embeddings.json_len();
    json_reply(state, len, headers, EmbedReply(embeddings)).await
}

impl EmbedBody {
    /// Takes the texts out.
    fn inputs(&mut self) -> Result<TextInput, ApiError> {
        let missing = || ApiError::invalid("inputs", "`inputs` is missing; it has the texts");
        self.inputs.take().ok_or_else(missing)
    }

    fn translate(self, texts: Vec<String>) -> EmbedRequest {
        let mut parameters = Map::new();
        // TEI normalizes unless it is asked not to, whatever the model does.
        let normalize = self.normalize.unwrap_or(true);
        if !normalize {
            parameters.insert("normalize".to_owned(), false.into());
        }
        EmbedRequest {
            texts,
            parameters,
            field: "inputs",
            dimensions: self.dimensions.map(|it| (it, "dimensions")),
            normalize,
            truncation: truncation(self.truncate, self.truncation_direction),
        }
    }
}

async fn similarity(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer_similarity(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer_similarity(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let request: JsonRequest<SimilarityBody> =
        JsonRequest::read(state, request, SIMILARITY_FIELDS).await?;
    let models = ServedModels::of(&state.service.snapshot()).await;
    let model = models.find(ModelKind::Embedding, request.body.model.as_deref())?;
    let parameters = request.body.parameters.as_ref();
    let prompt = parameters.and_then(|it| it.prompt_name.clone());
    let mut wanted = request.body.translate()?;
    if let Some(name) = prompt {
        prompts::choose(&mut wanted.parameters, model, &name)?;
    }
    let characters = characters(&wanted.texts);
    let embeddings = embed(&state.service, &models, model, wanted, &request.options).await?;
    let headers = compute_headers(model, characters, &embeddings.work);
    let cosines = cosines(&embeddings.vectors);
    json_reply(state, 0, headers, cosines).await
}

impl SimilarityBody {
    /// The source, and then the sentences that it is compared with.
    fn translate(self) -> Result<EmbedRequest, ApiError> {
        let missing = || {
            ApiError::invalid(
                "inputs",
                "`inputs` is missing; it has `source_sentence` and `sentences`",
            )
        };
        let inputs = self.inputs.ok_or_else(missing)?;
        if inputs.sentences.is_empty() {
            return Err(ApiError::new(
                ErrorKind::Empty,
                "`inputs.sentences` is empty",
            ));
        }
        let options = self.parameters.unwrap_or_default();
        Ok(EmbedRequest {
            texts: [vec![inputs.source_sentence], inputs.sentences].concat(),
            parameters: Map::new(),
            field: "inputs",
            dimensions: None,
            normalize: true,
            truncation: truncation(options.truncate, options.truncation_direction),
        })
    }
}

/// The cosine of the first vector and each other. All have length 1.
fn cosines(vectors: &[Vec<f32>]) -> Vec<f32> {
    let Some((source, others)) = vectors.split_first() else {
        return Vec::new();
    };
    let cosine = |other: &Vec<f32>| source.iter().zip(other).map(|(a, b)| a * b).sum();
    others.iter().map(cosine).collect()
}

async fn health(State(state): State<HttpState>) -> Response {
    if state.service.is_ready() {
        return StatusCode::OK.into_response();
    }
    let body = json!({"error": "an executor is not ready yet", "error_type": "Unhealthy"});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

#[cfg(test)]
mod tests;
