//! Encodes texts by the flow, for every API that asks for vectors.

use axum::http::HeaderMap;
use flow_core::{CallOptions, Document, EmbeddingType, Failure, Tensor};
use serde_json::{Map, Value, json};

use super::api_error::ApiError;
use super::model_call::{ModelCall, ModelWork, OWN_DOCUMENTS, PIECE_TEXTS, check_texts};
use super::models::{ServedModel, ServedModels};
use super::truncation::Truncation;
use crate::service::GatewayService;

/// The texts of a call, and what it asks of their vectors.
#[derive(Debug, Clone, Default)]
pub(crate) struct EmbedRequest {
    pub(crate) texts: Vec<String>,
    /// Parameters of the executor.
    pub(crate) parameters: Map<String, Value>,
    /// The field that has the texts, for messages.
    pub(crate) field: &'static str,
    /// The length of the vectors, if it is not the model's, and the field that asks for it.
    pub(crate) dimensions: Option<(usize, &'static str)>,
    /// Whether vectors that the model does not normalize are normalized here.
    pub(crate) normalize: bool,
    pub(crate) truncation: Truncation,
}

/// The vectors of a call.
#[derive(Debug)]
pub(crate) struct Embeddings {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) work: ModelWork,
}

impl Embeddings {
    /// About how many bytes the vectors take as JSON.
    pub(crate) fn json_len(&self) -> usize {
        let values: usize = self.vectors.iter().map(Vec::len).sum();
        values * 12
    }

    /// The tokens that the model read; `None` if its executor does not count them.
    pub(crate) fn tokens(&self) -> Option<u64> {
        self.work.tokens()
    }

    /// The headers of the reply that every API has.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.work.headers()
    }
}

/// Encodes texts with a model.
pub(crate) async fn embed(
    service: &GatewayService,
    models: &ServedModels,
    model: &ServedModel,
    mut request: EmbedRequest,
    options: &CallOptions,
) -> Result<Embeddings, ApiError> {
    check_texts(service, request.field, request.texts.iter())?;
    ask_for_floats(model, &mut request.parameters);
    ask_for_own_texts(model, &mut request.parameters);
    request.truncation.write(&mut request.parameters, model)?;
    let cut = cut(model, &request)?;
    let count = request.texts.len();
    let call = ModelCall {
        service,
        models,
        model,
        parameters: &request.parameters,
        options,
        field: request.field,
        count,
    };
    let mut vectors = Vec::with_capacity(count);
    let work = call
        .run_texts(&request.texts, PIECE_TEXTS, |document| {
            let vector = vector(document, model)?;
            vectors.push(finished(vector, cut, request.normalize));
            Ok(())
        })
        .await?;
    Ok(Embeddings { vectors, work })
}

/// Asks for floats, from which every format is made, if the executor would send something else.
fn ask_for_floats(model: &ServedModel, parameters: &mut Map<String, Value>) {
    let own = model.info.as_ref().and_then(|info| info.embedding_type);
    if own.is_some_and(|own| own != EmbeddingType::F32) {
        parameters.insert(
            EmbeddingType::PARAMETER.to_owned(),
            json!(EmbeddingType::F32),
        );
    }
}

/// Asks for the vectors of the texts themselves, if the executor would encode nested documents.
fn ask_for_own_texts(model: &ServedModel, parameters: &mut Map<String, Value>) {
    if model.info.as_ref().is_some_and(|info| info.reads_nested) {
        let (name, value) = OWN_DOCUMENTS;
        parameters.insert(name.to_owned(), value.into());
    }
}

/// The length to which vectors are cut, if they are.
fn cut(model: &ServedModel, request: &EmbedRequest) -> Result<Option<usize>, ApiError> {
    let Some((dimensions, field)) = request.dimensions else {
        return Ok(None);
    };
    let Some(info) = &model.info else {
        let message = format!(
            "the executor of `{}` does not report its dimensions",
            model.id
        );
        return Err(ApiError::invalid(field, message));
    };
    let own = info.dimensions;
    if dimensions == own {
        return Ok(None);
    }
    if dimensions < own && dimensions > 0 && info.shorter.allow(dimensions) {
        return Ok(Some(dimensions));
    }
    let message = format!(
        "the vectors of `{}` have {own} dimensions, and its `config.json` does not say that it was trained for \
         {dimensions} (`matryoshka_dimensions`)",
        model.id
    );
    Err(ApiError::invalid(field, message))
}

/// The vector of a document.
fn vector(document: &Document, model: &ServedModel) -> Result<Vec<f32>, Failure> {
    let embedding = document.embedding();
    let vector = embedding.as_ref().and_then(Tensor::to_f32);
    vector.ok_or_else(|| model.failure("returned a document without an embedding of floats"))
}

/// A vector as the request wants it.
fn finished(mut vector: Vec<f32>, cut: Option<usize>, normalize: bool) -> Vec<f32> {
    if let Some(cut) = cut {
        vector.truncate(cut);
    }
    if normalize || cut.is_some() {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|value| *value /= length);
        }
    }
    vector
}

#[cfg(test)]
mod tests {
    use flow_core::{ModelInfo, ShorterVectors};

    use super::*;

    fn model(shorter: ShorterVectors) -> ServedModel {
        ServedModel {
            id: "m".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info: Some(ModelInfo {
                dimensions: 8,
                shorter,
                ..ModelInfo::default()
            }),
            version: flow_core::DocArrayVersion::default(),
        }
    }

    #[track_caller]
    fn check_cut(shorter: ShorterVectors, wanted: usize, expected: Option<Option<usize>>) {
        let request = EmbedRequest {
            dimensions: Some((wanted, "dimensions")),
            ..EmbedRequest::default()
        };
        let cut = cut(&model(shorter), &request);
        assert_eq!(cut.clone().ok(), expected, "{wanted}: {cut:?}");
    }

    #[test]
    fn vectors_are_cut_only_to_lengths_that_the_model_was_trained_for() {
        check_cut(ShorterVectors::No, 8, Some(None));
        check_cut(ShorterVectors::No, 4, None);
        check_cut(ShorterVectors::Any, 4, Some(Some(4)));
        check_cut(ShorterVectors::Any, 9, None);
        check_cut(ShorterVectors::Any, 0, None);
        check_cut(ShorterVectors::Only(vec![2]), 2, Some(Some(2)));
        check_cut(ShorterVectors::Only(vec![2]), 4, None);
    }

    #[test]
    fn a_vector_that_is_cut_gets_the_length_1_again() {
        assert_eq!(finished(vec![3.0, 4.0, 12.0], Some(2), false), [0.6, 0.8]);
        assert_eq!(finished(vec![3.0, 4.0], None, true), [0.6, 0.8]);
        assert_eq!(finished(vec![3.0, 4.0], None, false), [3.0, 4.0]);
        assert_eq!(finished(vec![0.0], None, true), [0.0]);
    }
}
