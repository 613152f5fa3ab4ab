//! `POST /rerank`.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::super::api_error::ApiError;
use super::super::json_request::{JsonRequest, json_reply};
use super::super::rerank::{RerankRequest, models, rerank, reranker};
use super::super::state::HttpState;
use super::compute_headers::{characters, compute_headers};
use super::direction::{Direction, truncation};
use super::errors::failed;

/// The fields of `POST /rerank`.
pub(crate) const RERANK_FIELDS: &[&str] = &[
    "query",
    "texts",
    "truncate",
    "truncation_direction",
    "raw_scores",
    "return_text",
    "model",
];

/// About how many bytes an entry of the reply takes, without its text.
const ENTRY_LEN: usize = 40;

/// The body. TEI has no `model`; here it chooses one of several.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RerankBody {
    query: Option<String>,
    texts: Option<Vec<String>>,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    raw_scores: Option<bool>,
    return_text: Option<bool>,
    model: Option<String>,
}

/// A text of the reply.
#[derive(Debug, Serialize)]
struct Rank {
    index: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(super) async fn rerank_texts(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let models = models(&state.service).await?;
    let request: JsonRequest<RerankBody> = JsonRequest::read(state, request, RERANK_FIELDS).await?;
    let model = reranker(&models, request.body.model.as_deref())?;
    let returns_text = request.body.return_text == Some(true);
    let wanted = request.body.translate()?;
    let characters = characters(&wanted.texts) + wanted.query.chars().count();
    let ranking = rerank(&state.service, &models, model, &wanted, &request.options).await?;
    let headers = compute_headers(model, characters, &ranking.work);
    let ranks = ranking.texts.iter().map(|ranked| Rank {
        index: ranked.index,
        score: ranked.score,
        text: returns_text.then(|| wanted.texts[ranked.index].clone()),
    });
    let ranks: Vec<Rank> = ranks.collect();
    let texts = ranks.iter().filter_map(|rank| rank.text.as_ref());
    let len = ranks.len() * ENTRY_LEN + texts.map(String::len).sum::<usize>();
    json_reply(state, len, headers, ranks).await
}

impl RerankBody {
    fn translate(self) -> Result<RerankRequest, ApiError> {
        let missing = |field: &'static str, what| {
            ApiError::invalid(field, format!("`{field}` is missing; it has {what}"))
        };
        Ok(RerankRequest {
            query: self
                .query
                .ok_or_else(|| missing("query", "the text that the others may answer"))?,
            texts: self
                .texts
                .ok_or_else(|| missing("texts", "the texts to order"))?,
            field: "texts",
            limit: None,
            raw_scores: self.raw_scores.unwrap_or(false),
            truncation: truncation(self.truncate, self.truncation_direction),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::json_request::parse;
    use super::super::super::truncation::Truncation;
    use super::*;

    fn translate(body: &Value) -> Result<RerankRequest, ApiError> {
        let body = serde_json::to_vec(body).unwrap();
        parse::<RerankBody>(&body, RERANK_FIELDS)?.translate()
    }

    #[test]
    fn scores_are_between_0_and_1_unless_a_request_wants_those_of_the_model() {
        let plain = translate(&json!({"query": "q", "texts": ["a"]})).unwrap();
        assert_eq!((plain.raw_scores, plain.limit), (false, None));
        assert_eq!(plain.truncation, Truncation::default());
        let raw = json!({
            "query": "q", "texts": ["a"], "raw_scores": true, "truncate": false, "truncation_direction": "Left",
        });
        let raw = translate(&raw).unwrap();
        let truncation = Truncation {
            truncate: Some(false),
            left: Some("truncation_direction"),
        };
        assert_eq!((raw.raw_scores, raw.truncation), (true, truncation));
    }

    #[test]
    fn what_is_missing_or_unsupported_is_named() {
        for (body, field) in [
            (json!({"texts": ["a"]}), "query"),
            (json!({"query": "q"}), "texts"),
            (json!({"query": "q", "texts": [1]}), "texts"),
            (
                json!({"query": "q", "texts": ["a"], "truncation_direction": "Up"}),
                "truncation_direction",
            ),
        ] {
            assert_eq!(translate(&body).unwrap_err().field, Some(field), "{body}");
        }
    }

    #[test]
    fn a_text_is_in_the_reply_only_if_it_is_asked_for() {
        let rank = |text| Rank {
            index: 1,
            score: 0.5,
            text,
        };
        let json = |rank: Rank| serde_json::to_value(rank).unwrap();
        assert_eq!(json(rank(None)), json!({"index": 1, "score": 0.5}));
        let with_text = rank(Some("a".to_owned()));
        assert_eq!(
            json(with_text),
            json!({"index": 1, "score": 0.5, "text": "a"})
        );
    }
}
