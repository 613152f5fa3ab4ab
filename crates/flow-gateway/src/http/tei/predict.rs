//! `POST /predict`.

use std::fmt;
use std::num::NonZeroUsize;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::api_error::ApiError;
use super::super::classify::{
    ClassifyInput, ClassifyRequest, LabelScore, classifier, classify, models,
};
use super::super::json_request::{JsonRequest, json_reply};
use super::super::state::HttpState;
use super::compute_headers::compute_headers;
use super::direction::{Direction, truncation};
use super::errors::failed;

/// The fields of `POST /predict`.
pub(crate) const PREDICT_FIELDS: &[&str] = &[
    "inputs",
    "truncate",
    "truncation_direction",
    "raw_scores",
    "parameters",
    "model",
];

/// About how many bytes an entry of the reply takes, without its label.
const ENTRY_LEN: usize = 40;

/// The body. TEI has no `model`; here it chooses one of several.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PredictBody {
    inputs: Option<PredictInputs>,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    raw_scores: Option<bool>,
    parameters: Option<PredictParameters>,
    model: Option<String>,
}

/// What Hugging Face's client sends besides the texts.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PredictParameters {
    top_k: Option<NonZeroUsize>,
    function_to_apply: Option<String>,
}

/// A text, a pair of texts, or several of either, each as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PredictInputs {
    One(ClassifyInput),
    Several(Vec<ClassifyInput>),
}

/// The scores of a text, or those of several.
struct PredictReply {
    labels: Vec<String>,
    texts: Vec<Vec<LabelScore>>,
    is_one: bool,
    /// Number of labels of a text, the best ones.
    top_k: usize,
}

/// The score of a label in a reply.
#[derive(Serialize)]
struct Prediction<'r> {
    label: &'r str,
    score: f32,
}

pub(super) async fn predict(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let models = models(&state.service).await?;
    let request: JsonRequest<PredictBody> =
        JsonRequest::read(state, request, PREDICT_FIELDS).await?;
    let model = classifier(&models, request.body.model.as_deref())?;
    let is_one = matches!(request.body.inputs, Some(PredictInputs::One(_)));
    let top_k = request.body.parameters.as_ref().and_then(|it| it.top_k);
    let wanted = request.body.translate()?;
    let characters = characters(&wanted.inputs);
    let classified = classify(&state.service, &models, model, &wanted, &request.options).await?;
    let headers = compute_headers(model, characters, &classified.work);
    let reply = PredictReply {
        labels: classified.labels,
        texts: classified.texts,
        is_one,
        top_k: top_k.map_or(usize::MAX, NonZeroUsize::get),
    };
    json_reply(state, reply.json_len(), headers, reply).await
}

fn characters(inputs: &[ClassifyInput]) -> usize {
    let texts = inputs
        .iter()
        .flat_map(|input| [Some(&input.text), input.pair.as_ref()]);
    texts.flatten().map(|text| text.chars().count()).sum()
}

impl PredictBody {
    fn translate(self) -> Result<ClassifyRequest, ApiError> {
        let missing = || ApiError::invalid("inputs", "`inputs` is missing; it has the texts");
        let inputs = match self.inputs.ok_or_else(missing)? {
            PredictInputs::One(input) => vec![input],
            PredictInputs::Several(inputs) => inputs,
        };
        let function = self.parameters.and_then(|it| it.function_to_apply);
        let is_raw = is_raw(function.as_deref())?;
        Ok(ClassifyRequest {
            inputs,
            field: "inputs",
            raw_scores: self.raw_scores.unwrap_or(false) || is_raw,
            truncation: truncation(self.truncate, self.truncation_direction),
        })
    }
}

/// Whether this function leaves scores as the model gives them.
fn is_raw(function: Option<&str>) -> Result<bool, ApiError> {
    match function {
        None => Ok(false),
        Some("none") => Ok(true),
        Some(_) => Err(ApiError::invalid(
            "parameters.function_to_apply",
            "`function_to_apply` must be `none`, for scores as the model gives them, or be left out, for the function that the model was \
             trained with",
        )),
    }
}

impl<'de> Deserialize<'de> for PredictInputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputsVisitor)
    }
}

struct InputsVisitor;

/// An item of a list of inputs: in a pair a text, else a list with one or two.
#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a text, or a list of one or two texts")]
enum Item {
    Text(String),
    List(Vec<String>),
}

impl<'de> Visitor<'de> for InputsVisitor {
    type Value = PredictInputs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a text, a pair of texts as a list, or a list of lists of one or two texts each",
        )
    }

    fn visit_str<E>(self, text: &str) -> Result<PredictInputs, E> {
        Ok(PredictInputs::One(ClassifyInput {
            text: text.to_owned(),
            pair: None,
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PredictInputs, A::Error> {
        let mut texts = Vec::new();
        let mut several = Vec::new();
        while let Some(item) = items.next_element()? {
            match item {
                Item::Text(text) if texts.len() < 2 => texts.push(text),
                Item::Text(_) => return Err(A::Error::custom(TOO_MANY)),
                Item::List(list) => several.push(input(list).map_err(A::Error::custom)?),
            }
            if !texts.is_empty() && !several.is_empty() {
                return Err(A::Error::custom(MIXED));
            }
        }
        match texts.is_empty() {
            true => Ok(PredictInputs::Several(several)),
            false => Ok(PredictInputs::One(input(texts).map_err(A::Error::custom)?)),
        }
    }
}

const TOO_MANY: &str = "a list of texts is one text, or a pair; several texts are a list of lists, such as [[\"a\"], [\"b\"]]";
const MIXED: &str = "is a list of texts and of lists; several texts are a list of lists, such as [[\"a\"], [\"b\"]]";

/// The text, or the pair, of a list.
fn input(texts: Vec<String>) -> Result<ClassifyInput, &'static str> {
    let mut texts = texts.into_iter();
    match (texts.next(), texts.next(), texts.next()) {
        (Some(text), pair, None) => Ok(ClassifyInput { text, pair }),
        (None, ..) => Err("has an empty list; a list has one text, or the two of a pair"),
        (Some(_), _, Some(_)) => Err(TOO_MANY),
    }
}

impl PredictReply {
    /// About how many bytes it has as JSON.
    fn json_len(&self) -> usize {
        let labels = self.labels.iter();
        let of_text: usize = labels.map(|label| label.len() + ENTRY_LEN).sum();
        self.texts.len() * of_text
    }

    fn predictions<'r>(&'r self, scores: &'r [LabelScore]) -> impl Iterator<Item = Prediction<'r>> {
        scores.iter().take(self.top_k).map(|score| Prediction {
            label: &self.labels[score.label],
            score: score.score,
        })
    }
}

impl Serialize for PredictReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.is_one, self.texts.as_slice()) {
            (true, [scores]) => serializer.collect_seq(self.predictions(scores)),
            (_, texts) => {
                let of_text = |scores| self.predictions(scores).collect::<Vec<_>>();
                serializer.collect_seq(texts.iter().map(|scores| of_text(scores)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::json_request::parse;
    use super::*;

    fn inputs(inputs: &Value) -> Result<PredictInputs, String> {
        let body = serde_json::to_vec(&json!({ "inputs": inputs })).unwrap();
        let body = parse::<PredictBody>(&body, PREDICT_FIELDS);
        body.map(|body| body.inputs.unwrap())
            .map_err(|error| error.message)
    }

    fn text(text: &str) -> ClassifyInput {
        ClassifyInput {
            text: text.to_owned(),
            pair: None,
        }
    }

    fn pair(first: &str, second: &str) -> ClassifyInput {
        ClassifyInput {
            pair: Some(second.to_owned()),
            ..text(first)
        }
    }

    #[test]
    fn inputs_are_a_text_or_a_pair_or_a_list_of_either() {
        let one = |input| Ok(PredictInputs::One(input));
        assert_eq!(inputs(&json!("a")), one(text("a")));
        assert_eq!(inputs(&json!(["a"])), one(text("a")));
        assert_eq!(inputs(&json!(["a", "b"])), one(pair("a", "b")));
        let several = PredictInputs::Several(vec![text("a"), pair("b", "c")]);
        assert_eq!(inputs(&json!([["a"], ["b", "c"]])), Ok(several));
        assert_eq!(inputs(&json!([])), Ok(PredictInputs::Several(Vec::new())));
    }

    #[test]
    fn other_inputs_are_an_error_that_says_what_is_meant() {
        for (value, part) in [
            (json!(["a", "b", "c"]), "several texts are a list of lists"),
            (json!([["a"], "b"]), "a list of texts and of lists"),
            (json!([["a", "b", "c"]]), "one text, or a pair"),
            (json!([[]]), "an empty list"),
            (json!([1]), "must be a text, or a list of one or two texts"),
            (json!(1), "a text, a pair of texts as a list"),
        ] {
            let error = inputs(&value).unwrap_err();
            assert!(error.contains(part), "{value}: {error}");
        }
    }

    #[test]
    fn the_function_is_that_of_the_model_or_none() {
        let raw = |body: Value| {
            let body = serde_json::to_vec(&body).unwrap();
            let body = parse::<PredictBody>(&body, PREDICT_FIELDS).unwrap();
            body.translate().map(|request| request.raw_scores)
        };
        let function =
            |name: &str| json!({"inputs": "a", "parameters": {"function_to_apply": name}});
        assert_eq!(raw(json!({"inputs": "a", "parameters": {}})), Ok(false));
        assert_eq!(raw(json!({"inputs": "a", "raw_scores": true})), Ok(true));
        assert_eq!(raw(function("none")), Ok(true));
        let mut raw_too = function("softmax");
        raw_too["raw_scores"] = json!(true);
        assert!(raw(raw_too).is_err());
        let error = raw(function("softmax")).unwrap_err();
        assert_eq!(error.field, Some("parameters.function_to_apply"));
    }

    #[test]
    fn a_reply_has_the_shape_of_the_inputs() {
        let score = |label, score| LabelScore { label, score };
        let scores = vec![score(1, 0.75), score(0, 0.25)];
        let json = |texts, is_one| {
            let labels = ["bad", "good"].map(str::to_owned).to_vec();
            let reply = PredictReply {
                labels,
                texts,
                is_one,
                top_k: 2,
            };
            serde_json::to_value(reply).unwrap()
        };
        let expected = json!([
            {"label": "good", "score": 0.75},
            {"label": "bad", "score": 0.25},
        ]);
        assert_eq!(json(vec![scores.clone()], true), expected);
        assert_eq!(json(vec![scores.clone()], false), json!([expected]));
        let several = json(vec![scores.clone(), scores], false);
        assert_eq!(several, json!([expected, expected]));
    }
}
