//! `POST /embed_sparse`: the sparse vectors of texts.

use axum::extract::{Request, State};
use axum::response::Response;
use flow_core::{Code, Document, Failure, ModelKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::api_error::ApiError;
use super::super::json_request::{JsonRequest, json_reply};
use super::super::model_call::{ModelCall, OWN_DOCUMENTS, PIECE_TEXTS, check_texts};
use super::super::models::{ServedModel, ServedModels};
use super::super::prompts;
use super::super::state::HttpState;
use super::super::text_input::TextInput;
use super::compute_headers::{characters, compute_headers};
use super::direction::{Direction, truncation};
use super::errors::failed;

/// The fields of `POST /embed_sparse`.
pub(crate) const EMBED_SPARSE_FIELDS: &[&str] = &[
    "inputs",
    "truncate",
    "truncation_direction",
    "prompt_name",
    "model",
];

/// The tag in which the executor is asked to write vectors.
const TAG: &str = "sparse_embedding";

/// Maximum weights of all vectors of a call: 32 MiB in memory, and about four times that as JSON.
const WEIGHTS_MAX: usize = 4 << 20;

/// About how many bytes a weight takes as JSON.
const WEIGHT_LEN: usize = 35;

/// The body. TEI has no `model`; here it chooses one of several.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EmbedSparseBody {
    inputs: Option<TextInput>,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
    model: Option<String>,
}

/// The weight of a word in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Weight {
    index: u32,
    value: f32,
}

/// The tag of a document.
#[derive(Debug, Deserialize)]
struct VectorTag {
    indices: Vec<u32>,
    values: Vec<f32>,
}

pub(super) async fn embed_sparse(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let models = ServedModels::of(&state.service.snapshot()).await;
    // If there is no such model, that is the error, whatever the request is.
    models.check_kind(ModelKind::SparseEmbedding)?;
    let request: JsonRequest<EmbedSparseBody> =
        JsonRequest::read(state, request, EMBED_SPARSE_FIELDS).await?;
    let body = request.body;
    let model = models.find(ModelKind::SparseEmbedding, body.model.as_deref())?;
    let missing = || ApiError::invalid("inputs", "`inputs` is missing; it has the texts");
    let texts = body.inputs.ok_or_else(missing)?.texts("inputs")?;
    check_texts(&state.service, "inputs", texts.iter())?;
    // They override the options of the flow file.
    let parameters = [OWN_DOCUMENTS, ("tag", TAG)];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), Value::from(value)));
    let mut parameters = Map::from_iter(parameters);
    truncation(body.truncate, body.truncation_direction).write(&mut parameters, model)?;
    if let Some(name) = &body.prompt_name {
        prompts::choose(&mut parameters, model, name)?;
    }
    let call = ModelCall {
        service: &state.service,
        models: &models,
        model,
        parameters: &parameters,
        options: &request.options,
        field: "inputs",
        count: texts.len(),
    };
    let mut vectors = SparseReply::default();
    let work = call
        .run_texts(&texts, PIECE_TEXTS, |document| {
            vectors.take(document, model)
        })
        .await?;
    let headers = compute_headers(model, characters(&texts), &work);
    json_reply(state, vectors.weights * WEIGHT_LEN, headers, vectors.all).await
}

/// The vectors of a call so far.
#[derive(Debug, Default)]
struct SparseReply {
    all: Vec<Vec<Weight>>,
    weights: usize,
}

impl SparseReply {
    /// Takes the vector of a text.
    fn take(&mut self, document: &Document, model: &ServedModel) -> Result<(), Failure> {
        let vector = vector(document);
        let vector =
            vector.ok_or_else(|| model.failure("returned a document without a sparse vector"))?;
        self.weights += vector.len();
        if self.weights > WEIGHTS_MAX {
            let message = format!(
                "the vectors of one call have more than {WEIGHTS_MAX} weights; send fewer texts"
            );
            return Err(Failure::new(Code::BadRequest, message));
        }
        self.all.push(vector);
        Ok(())
    }
}

fn vector(document: &Document) -> Option<Vec<Weight>> {
    let tag = document.tags().remove(TAG)?;
    let VectorTag { indices, values } = serde_json::from_value(tag).ok()?;
    let has_all = indices.len() == values.len() && values.iter().all(|value| value.is_finite());
    let weights = indices.into_iter().zip(values);
    has_all.then(|| {
        weights
            .map(|(index, value)| Weight { index, value })
            .collect()
    })
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

    fn reply(tag: &Value) -> Document {
        let mut document = Document::from_text("a");
        document.set_tags(&Map::from_iter([(TAG.to_owned(), tag.clone())]));
        document
    }

    #[test]
    fn each_word_has_its_index_and_its_weight() {
        let mut vectors = SparseReply::default();
        let tag = json!({"indices": [3, 20_000], "values": [0.5, 1]});
        vectors.take(&reply(&tag), &model()).unwrap();
        let expected = json!([[{"index": 3, "value": 0.5}, {"index": 20_000, "value": 1.0}]]);
        assert_eq!(serde_json::to_value(&vectors.all).unwrap(), expected);
    }

    #[test]
    fn a_reply_without_a_vector_is_an_error() {
        for tag in [
            json!(null),
            json!({"indices": [1]}),
            json!({"indices": [1], "values": []}),
            json!({"indices": [-1], "values": [1]}),
        ] {
            let error = SparseReply::default().take(&reply(&tag), &model());
            let error = error.unwrap_err();
            assert!(
                error.message().contains("without a sparse vector"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_weights_of_a_call_are_limited() {
        let mut vectors = SparseReply {
            weights: WEIGHTS_MAX,
            ..SparseReply::default()
        };
        let tag = json!({"indices": [1], "values": [1]});
        let error = vectors.take(&reply(&tag), &model()).unwrap_err();
        assert_eq!(error.code(), Code::BadRequest);
    }
}
