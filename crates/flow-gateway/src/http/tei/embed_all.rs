//! `POST /embed_all`: the vectors of the tokens of texts.

use axum::extract::{Request, State};
use axum::response::Response;
use flow_core::{Code, Document, Failure, ModelKind, Tensor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Map;

use super::super::api_error::ApiError;
use super::super::json_request::{JsonRequest, json_reply};
use super::super::model_call::{ModelCall, OWN_DOCUMENTS, check_texts};
use super::super::models::{ServedModel, ServedModels};
use super::super::prompts;
use super::super::state::HttpState;
use super::super::text_input::TextInput;
use super::super::vector_format::VectorFormat;
use super::compute_headers::{characters, compute_headers};
use super::direction::{Direction, truncation};
use super::errors::failed;
use super::tokens::check_offered;

/// The fields of `POST /embed_all`.
pub(crate) const EMBED_ALL_FIELDS: &[&str] = &[
    "inputs",
    "truncate",
    "truncation_direction",
    "prompt_name",
    "model",
];

/// The endpoint of executors that give the vectors of tokens.
pub(crate) const TOKEN_VECTORS: &str = "/token_vectors";

/// Texts of one piece. Their tokens have many vectors.
const PIECE_TEXTS: usize = 8;

/// Maximum values of all vectors of a call: 64 MiB in memory, and about three times that as JSON.
const VALUES_MAX: usize = 16 << 20;

/// About how many bytes a value takes as JSON.
const VALUE_LEN: usize = 12;

/// The body. TEI has no `model`; here it chooses one of several.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EmbedAllBody {
    inputs: Option<TextInput>,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
    model: Option<String>,
}

/// The vectors of the tokens of a text.
#[derive(Debug, Clone, PartialEq)]
struct TokenMatrix {
    values: Vec<f32>,
    width: usize,
}

impl Serialize for TokenMatrix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.values.chunks_exact(self.width);
        serializer.collect_seq(rows.map(|row| VectorFormat::Float.of(row)))
    }
}

pub(super) async fn embed_all(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let request: JsonRequest<EmbedAllBody> =
        JsonRequest::read(state, request, EMBED_ALL_FIELDS).await?;
    let snapshot = state.service.snapshot();
    let models = ServedModels::of(&snapshot).await;
    let body = request.body;
    let model = models.find(ModelKind::Embedding, body.model.as_deref())?;
    check_offered(&snapshot, TOKEN_VECTORS, model)?;
    let missing = || ApiError::invalid("inputs", "`inputs` is missing; it has the texts");
    let texts = body.inputs.ok_or_else(missing)?.texts("inputs")?;
    check_texts(&state.service, "inputs", texts.iter())?;
    // It overrides the option of the flow file.
    let mut parameters = Map::from_iter([(OWN_DOCUMENTS.0.to_owned(), OWN_DOCUMENTS.1.into())]);
    truncation(body.truncate, body.truncation_direction).write(&mut parameters, model)?;
    if let Some(name) = &body.prompt_name {
        prompts::choose(&mut parameters, model, name)?;
    }
    let model = ServedModel {
        endpoint: TOKEN_VECTORS.to_owned(),
        ..model.clone()
    };
    let call = ModelCall {
        service: &state.service,
        models: &models,
        model: &model,
        parameters: &parameters,
        options: &request.options,
        field: "inputs",
        count: texts.len(),
    };
    let mut matrices = Matrices::default();
    let work = call
        .run_texts(&texts, PIECE_TEXTS, |document| {
            matrices.take(document, &model)
        })
        .await?;
    let headers = compute_headers(&model, characters(&texts), &work);
    json_reply(state, matrices.values * VALUE_LEN, headers, matrices.all).await
}

/// The vectors of a call so far.
#[derive(Debug, Default)]
struct Matrices {
    all: Vec<TokenMatrix>,
    values: usize,
}

impl Matrices {
    /// Takes the vectors of a text.
    fn take(&mut self, document: &Document, model: &ServedModel) -> Result<(), Failure> {
        let matrix = matrix(document);
        let matrix = matrix
            .ok_or_else(|| model.failure("returned a document without a matrix of floats"))?;
        self.values += matrix.values.len();
        if self.values > VALUES_MAX {
            let message = format!(
                "the vectors of one call have more than {VALUES_MAX} values; send fewer texts"
            );
            return Err(Failure::new(Code::BadRequest, message));
        }
        self.all.push(matrix);
        Ok(())
    }
}

fn matrix(document: &Document) -> Option<TokenMatrix> {
    let tensor = document.embedding()?;
    let &[_, width] = tensor.shape() else {
        return None;
    };
    let width = usize::try_from(width).ok().filter(|width| *width > 0)?;
    let values = Tensor::to_f32(&tensor)?;
    Some(TokenMatrix { values, width })
}

#[cfg(test)]
mod tests {
    use flow_core::DocArrayVersion;
    use serde_json::json;

    use super::*;

    fn model() -> ServedModel {
        ServedModel {
            id: "m".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info: None,
            version: DocArrayVersion::default(),
        }
    }

    fn document(tensor: Option<&Tensor>) -> Document {
        let mut document = Document::from_text("a");
        if let Some(tensor) = tensor {
            document.set_embedding(tensor);
        }
        document
    }

    #[test]
    fn the_tokens_of_a_text_are_the_rows_of_a_matrix() {
        let mut matrices = Matrices::default();
        let tensor = Tensor::matrix(&[0.5, 1.0, 1.5, 2.0, 2.5, 3.0], 2);
        matrices.take(&document(Some(&tensor)), &model()).unwrap();
        let json = serde_json::to_value(&matrices.all).unwrap();
        assert_eq!(json, json!([[[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]]]));
    }

    #[test]
    fn a_reply_without_a_matrix_is_an_error() {
        for tensor in [
            None,
            Some(Tensor::vector(&[1.0])),
            Some(Tensor::matrix(&[], 0)),
        ] {
            let reply = document(tensor.as_ref());
            let error = Matrices::default().take(&reply, &model()).unwrap_err();
            assert!(error.message().contains("without a matrix"), "{error}");
        }
    }

    #[test]
    fn the_values_of_a_call_are_limited() {
        let mut matrices = Matrices {
            values: VALUES_MAX,
            ..Matrices::default()
        };
        let reply = document(Some(&Tensor::matrix(&[1.0], 1)));
        let error = matrices.take(&reply, &model()).unwrap_err();
        assert_eq!(error.code(), Code::BadRequest);
    }
}
