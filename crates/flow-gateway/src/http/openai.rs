//! OpenAI's API for embeddings and models, with the fields that Jina AI adds to it.

mod errors;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{any, get, post};
use flow_core::ModelKind;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::errors::{failed, no_route, wrong_method};
use super::api_error::ApiError;
use super::embeddings::{EmbedRequest, Embeddings, embed};
use super::json_request::{JsonRequest, json_reply};
use super::models::{ServedModel, ServedModels};
use super::prompts::{TextRole, choose_first, choose_for_role, has_prompt_for};
use super::state::HttpState;
use super::text_input::TextInput;
use super::token_input::TokenInput;
use super::truncation::Truncation;
use super::vector_format::{FormattedVector, VectorFormat};

/// The fields of a request.
pub(super) const FIELDS: &[&str] = &[
    "input",
    "model",
    "encoding_format",
    "embedding_type",
    "dimensions",
    "user",
    "normalized",
    "truncate",
    "task",
    "late_chunking",
    "return_multivector",
];

/// The routes.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/v1/embeddings", post(embeddings).fallback(wrong_method))
        .route("/v1/models", get(models).fallback(wrong_method))
        .route("/v1/models/{*id}", get(model).fallback(wrong_method))
        .route("/v1/{*rest}", any(no_route))
}

/// The body of `POST /v1/embeddings`. The fields after `user` are Jina AI's.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EmbeddingsRequest {
    input: Option<TextInput>,
    model: Option<String>,
    encoding_format: Option<VectorFormat>,
    embedding_type: Option<VectorFormat>,
    dimensions: Option<usize>,
    user: Option<IgnoredAny>,
    normalized: Option<bool>,
    truncate: Option<bool>,
    task: Option<String>,
    late_chunking: Option<bool>,
    return_multivector: Option<bool>,
}

/// The reply to `POST /v1/embeddings`.
#[derive(Debug)]
struct EmbeddingsReply {
    model: String,
    format: VectorFormat,
    embeddings: Embeddings,
}

#[derive(Serialize)]
struct List<'r, T> {
    object: &'static str,
    data: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Embedding<'v> {
    object: &'static str,
    index: usize,
    embedding: FormattedVector<'v>,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
}

async fn embeddings(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let mut request: JsonRequest<EmbeddingsRequest> =
        JsonRequest::read(state, request, FIELDS).await?;
    request.body.refuse_what_is_not_there()?;
    let input = request.body.input()?;
    let models = ServedModels::of(&state.service.snapshot()).await;
    let model = models.find(ModelKind::Embedding, request.body.model.as_deref())?;
    let format = request.body.format();
    let name = request.body.model.clone();
    let task = request.body.task.clone().filter(|task| !task.is_empty());
    let source = TokenInput {
        service: &state.service,
        model,
        name: name.as_deref(),
        field: "input",
    };
    let texts = source.texts(input, &mut request).await?;
    let mut wanted = request.body.translate(texts);
    if let Some(task) = task {
        choose_prompt(&mut wanted, model, &task)?;
    }
    let embeddings = embed(&state.service, &models, model, wanted, &request.options).await?;
    let len = embeddings.json_len();
    let headers = embeddings.headers();
    let reply = EmbeddingsReply {
        model: name.unwrap_or_else(|| model.id.clone()),
        format,
        embeddings,
    };
    json_reply(state, len, headers, reply).await
}

/// Asks for the prompt that the model has for a task of Jina AI's models.
fn choose_prompt(
    wanted: &mut EmbedRequest,
    model: &ServedModel,
    task: &str,
) -> Result<(), ApiError> {
    let parameters = &mut wanted.parameters;
    // Some models name their prompts after tasks.
    if choose_first(parameters, model, &[task]) {
        return Ok(());
    }
    let (role, other) = match task {
        "retrieval.query" => (TextRole::Query, TextRole::Document),
        "retrieval.passage" => (TextRole::Document, TextRole::Query),
        _ => return Err(untrained("task")),
    };
    // A model with a prompt for one role treats texts of the other role as they are.
    match choose_for_role(parameters, model, role) || has_prompt_for(model, other) {
        true => Ok(()),
        false => Err(untrained("task")),
    }
}

/// The error of a field that asks for more than the model can.
fn untrained(field: &'static str) -> ApiError {
    let message = format!(
        "`{field}` needs a model that was trained for it; the models of this flow have no such mode"
    );
    ApiError::invalid(field, message)
}

impl EmbeddingsRequest {
    fn format(&self) -> VectorFormat {
        let format = self.encoding_format.or(self.embedding_type);
        format.unwrap_or_default()
    }

    /// Takes the texts out.
    fn input(&mut self) -> Result<TextInput, ApiError> {
        let missing = || ApiError::invalid("input", "`input` is missing; it has the texts");
        self.input.take().ok_or_else(missing)
    }

    /// What is asked of the vectors of texts.
    fn translate(self, texts: Vec<String>) -> EmbedRequest {
        let mut parameters = Map::new();
        if let Some(normalized) = self.normalized {
            parameters.insert("normalize".to_owned(), normalized.into());
        }
        EmbedRequest {
            texts,
            parameters,
            field: "input",
            dimensions: self.dimensions.map(|it| (it, "dimensions")),
            normalize: false,
            truncation: Truncation {
                truncate: self.truncate,
                left: None,
            },
        }
    }

    /// Refuses what Jina AI's models can and those of a flow cannot.
    fn refuse_what_is_not_there(&self) -> Result<(), ApiError> {
        let is_asked = |flag: Option<bool>| flag == Some(true);
        let refused = [
            (is_asked(self.late_chunking), "late_chunking"),
            (is_asked(self.return_multivector), "return_multivector"),
        ];
        match refused.into_iter().find(|(is_asked, _)| *is_asked) {
            None => Ok(()),
            Some((_, field)) => Err(untrained(field)),
        }
    }
}

impl Serialize for EmbeddingsReply {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let vectors = self.embeddings.vectors.iter().enumerate();
        let data = vectors.map(|(index, vector)| Embedding {
            object: "embedding",
            index,
            embedding: self.format.of(vector),
        });
        List {
            object: "list",
            data: data.collect::<Vec<_>>(),
            model: Some(&self.model),
            usage: self.embeddings.tokens().map(|tokens| Usage {
                prompt_tokens: tokens,
                total_tokens: tokens,
            }),
        }
        .serialize(serializer)
    }
}

async fn models(State(state): State<HttpState>) -> Response {
    let models = ServedModels::of(&state.service.snapshot()).await;
    let list = List {
        object: "list",
        data: models
            .all()
            .map(|it| described(&models, it))
            .collect::<Vec<_>>(),
        model: None,
        usage: None,
    };
    let reply = json_reply(&state, 0, HeaderMap::new(), json!(list)).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn model(State(state): State<HttpState>, Path(id): Path<String>) -> Response {
    let models = ServedModels::of(&state.service.snapshot()).await;
    let reply = async {
        let body = described(&models, models.find_any(Some(&id))?);
        json_reply(&state, 0, HeaderMap::new(), body).await
    };
    reply.await.unwrap_or_else(|error| failed(&error))
}

/// A model as OpenAI describes it, with what flow knows besides.
fn described(models: &ServedModels, model: &ServedModel) -> Value {
    let mut described = json!({
        "id": models.name_of(model),
        "object": "model",
        "created": 0,
        "owned_by": "flow",
        "executor": model.executor,
        "kind": model.kind(),
    });
    if let Some(info) = &model.info {
        described["root"] = json!(info.name);
        described["max_model_len"] = json!(info.max_length);
        if info.kind == ModelKind::Embedding {
            described["dimensions"] = json!(info.dimensions);
            described["prompts"] = json!(info.prompts);
            described["pooling"] = json!(info.pooling);
        }
        described["precision"] = json!(info.precision);
    }
    described
}

#[cfg(test)]
mod tests;
