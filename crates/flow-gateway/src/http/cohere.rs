//! Cohere's API for embeddings and reranking.

mod errors;
mod rerank;

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use flow_core::{ModelKind, RequestId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::errors::failed;
use super::api_error::ApiError;
use super::embeddings::{EmbedRequest, Embeddings, embed};
use super::json_request::{JsonRequest, json_reply};
use super::models::ServedModels;
use super::prompts::{TextRole, choose_for_role};
use super::state::HttpState;
use super::text_input::TextInput;
use super::truncation::Truncation;
use super::vector_format::{FormattedVector, VectorFormat};

#[cfg(test)]
pub(super) use rerank::RERANK_FIELDS;

/// The fields of `POST /v2/embed`.
pub(super) const FIELDS: &[&str] = &[
    "model",
    "texts",
    "inputs",
    "images",
    "input_type",
    "embedding_types",
    "output_dimension",
    "max_tokens",
    "truncate",
];

/// The routes.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/v2/embed", post(embed_texts))
        .route("/v2/rerank", post(rerank::second_version))
        .route("/v1/rerank", post(rerank::first_version))
}

/// The body of `POST /v2/embed`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EmbedBody {
    model: Option<String>,
    texts: Option<TextInput>,
    inputs: Option<Vec<Input>>,
    images: Option<Vec<IgnoredAny>>,
    input_type: Option<String>,
    embedding_types: Option<Vec<VectorFormat>>,
    output_dimension: Option<usize>,
    max_tokens: Option<usize>,
    truncate: Option<Truncate>,
}

/// An entry of `inputs`: texts that are encoded together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    content: TextInput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Truncate {
    None,
    Start,
    End,
}

/// The reply to `POST /v2/embed`.
struct EmbedReply {
    id: String,
    formats: Vec<VectorFormat>,
    texts: Vec<String>,
    embeddings: Embeddings,
}

async fn embed_texts(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let request: JsonRequest<EmbedBody> = JsonRequest::read(state, request, FIELDS).await?;
    let models = ServedModels::of(&state.service.snapshot()).await;
    let model = models.find(ModelKind::Embedding, request.body.model.as_deref())?;
    let formats = request.body.formats();
    let role = request.body.role();
    let mut wanted = request.body.translate()?;
    if let Some(role) = role {
        // A model without such a prompt treats all texts alike.
        choose_for_role(&mut wanted.parameters, model, role);
    }
    let texts = wanted.texts.clone();
    let embeddings = embed(&state.service, &models, model, wanted, &request.options).await?;
    let len = embeddings.json_len() * formats.len();
    let headers = embeddings.headers();
    let reply = EmbedReply {
        id: RequestId::random().into(),
        formats,
        texts,
        embeddings,
    };
    json_reply(state, len, headers, reply).await
}

impl EmbedBody {
    /// The formats of the reply, each once.
    fn formats(&self) -> Vec<VectorFormat> {
        let mut formats = self.embedding_types.clone().unwrap_or_default();
        formats.sort_unstable();
        formats.dedup();
        if formats.is_empty() {
            formats.push(VectorFormat::Float);
        }
        formats
    }

    /// What the texts are in a search.
    fn role(&self) -> Option<TextRole> {
        match self.input_type.as_deref() {
            Some("search_query") => Some(TextRole::Query),
            Some("search_document") => Some(TextRole::Document),
            _ => None,
        }
    }

    fn translate(self) -> Result<EmbedRequest, ApiError> {
        self.refuse_what_is_not_there()?;
        let truncation = Truncation {
            truncate: (self.truncate == Some(Truncate::None)).then_some(false),
            left: (self.truncate == Some(Truncate::Start)).then_some("truncate"),
        };
        Ok(EmbedRequest {
            dimensions: self.output_dimension.map(|it| (it, "output_dimension")),
            texts: self.into_texts()?,
            parameters: Map::new(),
            field: "texts",
            normalize: false,
            truncation,
        })
    }

    fn refuse_what_is_not_there(&self) -> Result<(), ApiError> {
        if self
            .images
            .as_ref()
            .is_some_and(|images| !images.is_empty())
        {
            let message = "`images` needs a model for images, and the flow has models for texts";
            return Err(ApiError::invalid("images", message));
        }
        if self.max_tokens.is_some() {
            let message = "`max_tokens` cannot be chosen by a request; set `max_length` in the flow file, in the \
                           encoder's `uses_with`";
            return Err(ApiError::invalid("max_tokens", message));
        }
        Ok(())
    }

    fn into_texts(self) -> Result<Vec<String>, ApiError> {
        match (self.texts, self.inputs) {
            (Some(_), Some(inputs)) if !inputs.is_empty() => Err(ApiError::invalid(
                "inputs",
                "`texts` and `inputs` are both set; set one of them",
            )),
            (Some(texts), _) => texts.texts("texts"),
            (None, Some(inputs)) => inputs.into_iter().map(Input::text).collect(),
            (None, None) => {
                let message = "`texts` is missing; it has the texts";
                Err(ApiError::invalid("texts", message))
            }
        }
    }
}

impl Input {
    /// The text of an entry, whose parts are on lines of their own.
    fn text(self) -> Result<String, ApiError> {
        Ok(self.content.texts("inputs")?.join("\n"))
    }
}

impl Serialize for EmbedReply {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Body<'r> {
            id: &'r str,
            embeddings: BTreeMap<VectorFormat, Vec<FormattedVector<'r>>>,
            texts: &'r [String],
            meta: Value,
            response_type: &'static str,
        }
        let in_format = |format: &VectorFormat| {
            let vectors = self.embeddings.vectors.iter();
            (*format, vectors.map(|vector| format.of(vector)).collect())
        };
        let mut meta = json!({ "api_version": { "version": "2" } });
        if let Some(tokens) = self.embeddings.tokens() {
            meta["billed_units"] = json!({ "input_tokens": tokens });
        }
        Body {
            id: &self.id,
            embeddings: self.formats.iter().map(in_format).collect(),
            texts: &self.texts,
            meta,
            response_type: "embeddings_by_type",
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::json_request::parse;
    use super::super::model_call::ModelWork;
    use super::*;

    fn read(body: &Value) -> Result<EmbedBody, ApiError> {
        parse(&serde_json::to_vec(body).unwrap(), FIELDS)
    }

    #[track_caller]
    fn check_refused(body: &Value, field: &str) {
        let error = read(body).and_then(EmbedBody::translate).unwrap_err();
        assert_eq!(error.field, Some(field), "{body}: {error:?}");
    }

    #[test]
    fn texts_come_as_texts_or_as_inputs() {
        let texts = |body| read(body).unwrap().translate().unwrap().texts;
        let plain = json!({"model": "m", "texts": ["a", "b"], "input_type": "search_query"});
        assert_eq!(texts(&plain), ["a", "b"]);
        let content = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(texts(&json!({"inputs": [{"content": content}]})), ["a\nb"]);
    }

    #[test]
    fn unsupported_options_are_refused() {
        check_refused(&json!({"model": "m"}), "texts");
        check_refused(&json!({"texts": ["a"], "truncate": "MIDDLE"}), "truncate");
        check_refused(&json!({"texts": ["a"], "images": ["x"]}), "images");
        check_refused(&json!({"texts": ["a"], "max_tokens": 9}), "max_tokens");
        check_refused(
            &json!({"texts": ["a"], "embedding_types": ["int4"]}),
            "embedding_types",
        );
        let inputs = json!({"texts": ["a"], "inputs": [{"content": [{"text": "b"}]}]});
        check_refused(&inputs, "inputs");
    }

    #[test]
    fn vectors_are_listed_by_format_with_the_tokens_that_were_read() {
        let body = read(&json!({"embedding_types": ["int8", "float", "int8"]})).unwrap();
        let reply = EmbedReply {
            id: "1".to_owned(),
            formats: body.formats(),
            texts: vec!["a".to_owned()],
            embeddings: Embeddings {
                vectors: vec![vec![1.0, -0.5]],
                work: ModelWork {
                    usage: Some(flow_core::Usage {
                        tokens: 3,
                        cached_texts: None,
                    }),
                    ..ModelWork::default()
                },
            },
        };
        let expected = json!({
            "id": "1",
            "embeddings": {"float": [[1.0, -0.5]], "int8": [[114, -57]]},
            "texts": ["a"],
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 3}},
            "response_type": "embeddings_by_type",
        });
        assert_eq!(serde_json::to_value(&reply).unwrap(), expected);
    }
}
