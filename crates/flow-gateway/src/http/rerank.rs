//! Orders texts by how well each answers a query, for every API that asks for it.

use flow_core::{CallOptions, Code, DocArrayVersion, Document, DocumentArray, Failure, ModelKind};
use serde_json::{Map, Value};

use super::api_error::{ApiError, ErrorKind};
use super::model_call::{ModelCall, ModelWork, OWN_DOCUMENTS, PIECE_TEXTS, check_texts};
use super::models::{ServedModel, ServedModels};
use super::truncation::Truncation;
use crate::service::GatewayService;

/// The score that a reranker gives the matches of a document.
const RELEVANCE: &str = "relevance";

/// Parameters of a reranker.
const RAW_SCORES: &str = "raw_scores";
const TOP_K: &str = "top_k";
/// Longest query, in bytes: far more than models read. It is sent with each piece of a call.
const QUERY_LEN_MAX: usize = 64 << 10;

/// A query, and texts that may answer it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RerankRequest {
    pub(crate) query: String,
    pub(crate) texts: Vec<String>,
    /// The field that has the texts, for messages.
    pub(crate) field: &'static str,
    /// The number of texts in the reply, if it is limited.
    pub(crate) limit: Option<usize>,
    /// Whether scores are as the model gives them, instead of from 0 to 1.
    pub(crate) raw_scores: bool,
    pub(crate) truncation: Truncation,
}

/// A text of a request, by its place there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RankedText {
    pub(crate) index: usize,
    pub(crate) score: f32,
}

/// The texts of a request, the best first.
#[derive(Debug)]
pub(crate) struct Ranking {
    pub(crate) texts: Vec<RankedText>,
    pub(crate) work: ModelWork,
}

/// The models of the flow. If no reranker is among them, that is the error, whatever the request is.
pub(crate) async fn models(service: &GatewayService) -> Result<ServedModels, ApiError> {
    let models = ServedModels::of(&service.snapshot()).await;
    models.check_kind(ModelKind::Reranker)?;
    Ok(models)
}

/// The reranker that a request means.
pub(crate) fn reranker<'m>(
    models: &'m ServedModels,
    name: Option<&str>,
) -> Result<&'m ServedModel, ApiError> {
    models.find(ModelKind::Reranker, name)
}

/// Orders the texts of a request.
pub(crate) async fn rerank(
    service: &GatewayService,
    models: &ServedModels,
    model: &ServedModel,
    request: &RerankRequest,
    options: &CallOptions,
) -> Result<Ranking, ApiError> {
    check_request(service, request)?;
    let call = ModelCall {
        service,
        models,
        model,
        parameters: &parameters(request, model)?,
        options,
        field: request.field,
        count: request.texts.len(),
    };
    let (count, all) = (request.texts.len(), request.texts.as_slice());
    let pieces = (0..count).step_by(PIECE_TEXTS).map(|start| {
        let texts = &all[start..count.min(start + PIECE_TEXTS)];
        document(&request.query, texts, model.version)
    });
    let mut texts = Vec::with_capacity(count);
    let work = call
        .run(pieces, |reply| {
            let start = texts.len();
            let sent = PIECE_TEXTS.min(count - start);
            texts.extend(scored(reply, start, sent, &model.executor)?);
            Ok(())
        })
        .await?;
    // The sort is stable: texts with the same score keep their order.
    texts.sort_by(|a, b| b.score.total_cmp(&a.score));
    texts.truncate(request.limit.unwrap_or(usize::MAX));
    Ok(Ranking { texts, work })
}

fn check_request(service: &GatewayService, request: &RerankRequest) -> Result<(), ApiError> {
    if request.query.is_empty() {
        return Err(ApiError::new(ErrorKind::Empty, "`query` is empty").at("query"));
    }
    if request.query.len() > QUERY_LEN_MAX {
        let len = request.query.len();
        let message = format!("`query` has {len} bytes; at most {QUERY_LEN_MAX} are allowed");
        return Err(ApiError::invalid("query", message));
    }
    check_texts(service, request.field, request.texts.iter())
}

/// Parameters of the executor. They override the options of the flow file that would change the reply.
fn parameters(
    request: &RerankRequest,
    model: &ServedModel,
) -> Result<Map<String, Value>, ApiError> {
    let parameters = [
        (TOP_K, PIECE_TEXTS.into()),
        (OWN_DOCUMENTS.0, OWN_DOCUMENTS.1.into()),
        (RAW_SCORES, request.raw_scores.into()),
    ];
    let parameters = parameters.map(|(name, value): (_, Value)| (name.to_owned(), value));
    let mut parameters = Map::from_iter(parameters);
    request.truncation.write(&mut parameters, model)?;
    Ok(parameters)
}

/// A document with the query, whose matches are the texts. The id of each is its place.
fn document(query: &str, texts: &[String], version: DocArrayVersion) -> DocumentArray {
    let matches = texts.iter().enumerate().map(|(place, text)| {
        let mut document = Document::of_version(version);
        document.set_id(&place.to_string());
        document.set_text(text);
        document
    });
    let mut document = Document::of_version(version);
    document.set_text(query);
    document.set_matches(matches.collect());
    [document].into_iter().collect()
}

/// The scores of the matches of a reply to a document with so many. Their places begin at `start`.
fn scored(
    reply: DocumentArray,
    start: usize,
    count: usize,
    executor: &str,
) -> Result<Vec<RankedText>, Failure> {
    let failed = |what: &str| {
        let message = format!("executor `{executor}` {what}");
        Failure::new(Code::ExecutorFailed, message)
    };
    let mut scores = vec![None; count];
    for mut document in reply {
        for found in document.matches_mut()? {
            let place = found.id().parse().ok();
            let score = place.and_then(|place: usize| scores.get_mut(place));
            let score = score.ok_or_else(|| failed("returned a text that it was not sent"))?;
            *score = found.score(RELEVANCE).filter(|score| score.is_finite());
        }
    }
    let ranked = scores.iter().enumerate().map(|(place, score)| {
        let score =
            score.ok_or_else(|| failed("returned a text without a finite score `relevance`"))?;
        Ok(RankedText {
            index: start + place,
            score,
        })
    });
    ranked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply of an executor that gives each text of a document a score.
    fn reply(scores: &[(&str, Option<f32>)]) -> DocumentArray {
        let texts = vec!["a".to_owned(); scores.len()];
        let sent = document("q", &texts, DocArrayVersion::V1);
        let scored = sent.into_iter().map(|mut document| {
            let matches = document.matches_mut().unwrap();
            for (found, (id, score)) in matches.iter_mut().zip(scores) {
                found.set_id(id);
                if let Some(score) = score {
                    found.set_score(RELEVANCE, *score, "q");
                }
            }
            document
        });
        scored.collect()
    }

    #[test]
    fn scores_are_those_of_the_texts_whatever_their_order() {
        let scored = scored(reply(&[("1", Some(0.5)), ("0", Some(0.25))]), 64, 2, "r").unwrap();
        let expected = [(64, 0.25), (65, 0.5)].map(|(index, score)| RankedText { index, score });
        assert_eq!(scored, expected);
    }

    #[test]
    fn an_executor_must_score_every_text() {
        for (scores, part) in [
            (
                &[("0", Some(0.5)), ("1", None)][..],
                "without a finite score `relevance`",
            ),
            (
                &[("0", Some(0.5)), ("1", Some(f32::INFINITY))],
                "without a finite score",
            ),
            (&[("0", Some(0.5))], "without a finite score `relevance`"),
            (&[("0", Some(0.5)), ("x", Some(0.5))], "was not sent"),
            (&[("0", Some(0.5)), ("2", Some(0.5))], "was not sent"),
        ] {
            let error = scored(reply(scores), 0, 2, "r").unwrap_err();
            assert!(error.message().contains(part), "{error}");
            assert!(error.message().contains("executor `r`"), "{error}");
        }
    }

    #[test]
    fn the_parameters_are_those_of_the_executor() {
        let request = RerankRequest {
            truncation: Truncation {
                truncate: Some(false),
                left: None,
            },
            ..RerankRequest::default()
        };
        let model = ServedModel {
            id: "m".to_owned(),
            executor: "r".to_owned(),
            endpoint: "/rank".to_owned(),
            info: None,
            version: DocArrayVersion::default(),
        };
        let expected = serde_json::json!({
            "top_k": 64, "access_paths": "@r", "raw_scores": false, "truncate": false,
        });
        let parameters = parameters(&request, &model).unwrap();
        assert_eq!(Value::Object(parameters), expected);
    }
}
