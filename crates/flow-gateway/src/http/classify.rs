//! Classifies texts, for every API that asks for it.

use std::collections::BTreeMap;

use flow_core::{CallOptions, Code, DocArrayVersion, Document, DocumentArray, Failure, ModelKind};
use serde_json::{Map, Value};

use super::api_error::ApiError;
use super::model_call::{ModelCall, ModelWork, OWN_DOCUMENTS, PIECE_TEXTS, check_texts};
use super::models::{ServedModel, ServedModels};
use super::truncation::Truncation;
use crate::service::GatewayService;

/// Parameters of a classifier.
const RAW_SCORES: &str = "raw_scores";
const TOP_K: &str = "top_k";
/// Maximum scores of one call: 64 MiB in memory, and several times that as JSON.
const SCORES_MAX: usize = 4 << 20;

/// The tag with the second text of a pair.
const TEXT_PAIR: &str = "text_pair";

/// Texts, or pairs of texts, to classify.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ClassifyRequest {
    pub(crate) inputs: Vec<ClassifyInput>,
    /// The field that has the texts, for messages.
    pub(crate) field: &'static str,
    /// Whether scores are as the model gives them, instead of from 0 to 1.
    pub(crate) raw_scores: bool,
    pub(crate) truncation: Truncation,
}

/// A text, or a pair of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClassifyInput {
    pub(crate) text: String,
    /// The second text of a pair.
    pub(crate) pair: Option<String>,
}

/// The scores of texts.
#[derive(Debug)]
pub(crate) struct Classified {
    /// The labels of the model.
    pub(crate) labels: Vec<String>,
    /// The scores of each text, the best first.
    pub(crate) texts: Vec<Vec<LabelScore>>,
    pub(crate) work: ModelWork,
}

/// The score of a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LabelScore {
    /// The place of the label among those of the model.
    pub(crate) label: usize,
    pub(crate) score: f32,
}

/// The models of the flow. If no classifier is among them, that is the error, whatever the request is.
pub(crate) async fn models(service: &GatewayService) -> Result<ServedModels, ApiError> {
    let models = ServedModels::of(&service.snapshot()).await;
    models.check_kind(ModelKind::Classifier)?;
    Ok(models)
}

/// The classifier that a request means.
pub(crate) fn classifier<'m>(
    models: &'m ServedModels,
    name: Option<&str>,
) -> Result<&'m ServedModel, ApiError> {
    models.find(ModelKind::Classifier, name)
}

/// Classifies the texts of a request.
pub(crate) async fn classify(
    service: &GatewayService,
    models: &ServedModels,
    model: &ServedModel,
    request: &ClassifyRequest,
    options: &CallOptions,
) -> Result<Classified, ApiError> {
    let inputs = request.inputs.as_slice();
    check_texts(service, request.field, inputs.iter().map(longest))?;
    let labels = labels(model)?;
    check_scores(request, labels.len())?;
    let call = ModelCall {
        service,
        models,
        model,
        parameters: &parameters(request, model, labels.len())?,
        options,
        field: request.field,
        count: inputs.len(),
    };
    let count = inputs.len();
    let pieces = (0..count).step_by(PIECE_TEXTS).map(|start| {
        let piece = &inputs[start..count.min(start + PIECE_TEXTS)];
        documents(piece, model.version)
    });
    let mut texts = Vec::with_capacity(count);
    let work = call
        .run(pieces, |reply| {
            let sent = PIECE_TEXTS.min(count - texts.len());
            texts.extend(scored(&reply, sent, labels, &model.executor)?);
            Ok(())
        })
        .await?;
    Ok(Classified {
        labels: labels.to_vec(),
        texts,
        work,
    })
}

/// Refuses a call with too many scores.
fn check_scores(request: &ClassifyRequest, labels: usize) -> Result<(), ApiError> {
    let texts_max = SCORES_MAX / labels;
    match request.inputs.len() {
        count if count > texts_max => {
            let message = format!(
                "`{}` has {count} texts; with {labels} labels, at most {texts_max} are allowed",
                request.field
            );
            Err(ApiError::invalid(request.field, message))
        }
        _ => Ok(()),
    }
}

/// The longer text of a pair, or the text. Of a pair, one may be empty.
fn longest(input: &ClassifyInput) -> &str {
    let pair = input.pair.as_deref();
    pair.filter(|pair| pair.len() > input.text.len())
        .unwrap_or(&input.text)
}

/// The labels of a classifier. Without them nothing is known of its scores.
fn labels(model: &ServedModel) -> Result<&[String], Failure> {
    let info = model.info.as_ref();
    match info.map_or(&[][..], |info| &info.labels) {
        [] => Err(failed(
            &model.executor,
            "reports a classifier without labels",
        )),
        labels => Ok(labels),
    }
}

/// Parameters of the executor. They override the options of the flow file that would change the reply.
fn parameters(
    request: &ClassifyRequest,
    model: &ServedModel,
    labels: usize,
) -> Result<Map<String, Value>, ApiError> {
    let parameters = [
        (TOP_K, labels.into()),
        (OWN_DOCUMENTS.0, OWN_DOCUMENTS.1.into()),
        (RAW_SCORES, request.raw_scores.into()),
    ];
    let parameters = parameters.map(|(name, value): (_, Value)| (name.to_owned(), value));
    let mut parameters = Map::from_iter(parameters);
    request.truncation.write(&mut parameters, model)?;
    Ok(parameters)
}

/// A document for each text. The second text of a pair is a tag.
fn documents(inputs: &[ClassifyInput], version: DocArrayVersion) -> DocumentArray {
    let documents = inputs.iter().map(|input| {
        let mut document = Document::of_version(version);
        document.set_text(&input.text);
        if let Some(pair) = &input.pair {
            let tag = (TEXT_PAIR.to_owned(), pair.as_str().into());
            document.set_tags(&Map::from_iter([tag]));
        }
        document
    });
    documents.collect()
}

/// The scores of the labels of each document of a reply to so many.
fn scored(
    reply: &DocumentArray,
    sent: usize,
    labels: &[String],
    executor: &str,
) -> Result<Vec<Vec<LabelScore>>, Failure> {
    if reply.len() != sent {
        let what = format!("returned {} documents for {sent}", reply.len());
        return Err(failed(executor, &what));
    }
    let score = |scores: &BTreeMap<String, f32>, label: usize| {
        let name = &labels[label];
        let score = scores.get(name).copied().filter(|score| score.is_finite());
        let score = score.ok_or_else(|| {
            let what = format!("returned a text without a finite score `{name}`");
            failed(executor, &what)
        })?;
        Ok(LabelScore { label, score })
    };
    let scores = |document: &Document| {
        let own = document.scores();
        let scores = (0..labels.len()).map(|label| score(&own, label));
        let mut scores = scores.collect::<Result<Vec<_>, Failure>>()?;
        // The sort is stable: labels with the same score keep their order.
        scores.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(scores)
    };
    reply.iter().map(scores).collect()
}

fn failed(executor: &str, what: &str) -> Failure {
    Failure::new(
        Code::ExecutorFailed,
        format!("executor `{executor}` {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 2] = ["bad", "good"];

    /// The reply of an executor that gives each text these scores.
    fn reply(scores: &[[Option<f32>; 2]]) -> DocumentArray {
        let documents = scores.iter().map(|scores| {
            let mut document = Document::from_text("a");
            for (label, score) in LABELS.iter().zip(scores) {
                if let Some(score) = score {
                    document.set_score(label, *score, "");
                }
            }
            document
        });
        documents.collect()
    }

    #[test]
    fn the_best_label_of_a_text_comes_first() {
        let labels = LABELS.map(str::to_owned);
        let reply = reply(&[[Some(0.75), Some(0.25)], [Some(0.25), Some(0.75)]]);
        let texts = scored(&reply, 2, &labels, "c").unwrap();
        let best: Vec<usize> = texts.iter().map(|scores| scores[0].label).collect();
        assert_eq!(best, [0, 1]);
        assert_eq!(texts[0].len(), 2);
    }

    #[test]
    fn an_executor_must_score_every_label_of_every_text() {
        let labels = LABELS.map(str::to_owned);
        for (scores, part) in [
            (&[[Some(0.5), None]][..], "a finite score `good`"),
            (&[[Some(0.5); 2]; 2], "2 documents for 1"),
            (&[], "0 documents for 1"),
        ] {
            let error = scored(&reply(scores), 1, &labels, "c").unwrap_err();
            assert!(error.message().contains(part), "{error}");
            assert!(error.message().contains("executor `c`"), "{error}");
        }
    }

    #[test]
    fn a_pair_is_a_document_with_a_tag() {
        let inputs = [
            ClassifyInput {
                text: "a".to_owned(),
                pair: Some("b".to_owned()),
            },
            ClassifyInput {
                text: "c".to_owned(),
                pair: None,
            },
        ];
        for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
            let documents: Vec<Document> = documents(&inputs, version).into_iter().collect();
            assert_eq!(documents[0].tags()["text_pair"], "b");
            assert_eq!(documents[1].text(), "c");
            assert!(documents[1].tags().is_empty());
        }
    }

    #[test]
    fn the_scores_of_a_call_are_limited() {
        let request = ClassifyRequest {
            inputs: vec![ClassifyInput::default(); 5],
            field: "inputs",
            ..ClassifyRequest::default()
        };
        assert!(check_scores(&request, SCORES_MAX / 5).is_ok());
        let error = check_scores(&request, SCORES_MAX / 4).unwrap_err();
        assert!(error.message.contains("at most 4 are allowed"), "{error:?}");
    }

    #[test]
    fn the_parameters_are_those_of_the_executor() {
        let request = ClassifyRequest {
            raw_scores: true,
            ..ClassifyRequest::default()
        };
        let expected = serde_json::json!({"top_k": 3, "access_paths": "@r", "raw_scores": true});
        let model = ServedModel {
            id: "m".to_owned(),
            executor: "c".to_owned(),
            endpoint: "/classify".to_owned(),
            info: None,
            version: DocArrayVersion::default(),
        };
        let parameters = parameters(&request, &model, 3).unwrap();
        assert_eq!(Value::Object(parameters), expected);
    }
}
