//! `POST /v2/rerank`, and `POST /v1/rerank` with the reply of Cohere's first version and of Jina AI. Both take the fields of both.

use axum::extract::{Request, State};
use axum::response::Response;
use flow_core::RequestId;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::api_error::ApiError;
use super::super::json_request::{JsonRequest, json_reply};
use super::super::rerank::{RankedText, RerankRequest, models, rerank, reranker};
use super::super::state::HttpState;
use super::super::text_input::TextInput;
use super::super::truncation::Truncation;
use super::errors::failed;

/// The fields of both routes.
pub(crate) const RERANK_FIELDS: &[&str] = &[
    "model",
    "query",
    "documents",
    "top_n",
    "return_documents",
    "max_tokens_per_doc",
    "max_chunks_per_doc",
    "rank_fields",
    "truncation",
    "priority",
];

/// About how many bytes an entry of the reply takes, without its text.
const ENTRY_LEN: usize = 50;

/// The body. A document is a text, or an object with the field `text`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RerankBody {
    model: Option<String>,
    query: Option<String>,
    documents: Option<TextInput>,
    top_n: Option<usize>,
    return_documents: Option<bool>,
    max_tokens_per_doc: Option<usize>,
    max_chunks_per_doc: Option<usize>,
    rank_fields: Option<Vec<String>>,
    /// Voyage AI's: whether long texts are truncated, or refused.
    truncation: Option<bool>,
    /// It is read and has no effect: requests have no priorities.
    priority: Option<IgnoredAny>,
}

/// The version of Cohere's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// Jina AI's API has the same route.
    First,
    Second,
}

/// A text of the reply.
#[derive(Debug, Serialize)]
struct Rank<'r> {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<RankDocument<'r>>,
}

#[derive(Debug, Serialize)]
struct RankDocument<'r> {
    text: &'r str,
}

/// The reply.
#[derive(Debug)]
struct RerankReply {
    version: Version,
    model: String,
    ranks: Vec<RankedText>,
    /// The texts of the request; `None` if the reply has none.
    texts: Option<Vec<String>>,
    tokens: Option<u64>,
}

pub(super) async fn first_version(state: State<HttpState>, request: Request) -> Response {
    respond(&state, Version::First, request).await
}

pub(super) async fn second_version(state: State<HttpState>, request: Request) -> Response {
    respond(&state, Version::Second, request).await
}

async fn respond(state: &HttpState, version: Version, request: Request) -> Response {
    let reply = answer(state, version, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer(
    state: &HttpState,
    version: Version,
    request: Request,
) -> Result<Response, ApiError> {
    let models = models(&state.service).await?;
    let request: JsonRequest<RerankBody> = JsonRequest::read(state, request, RERANK_FIELDS).await?;
    let model = reranker(&models, request.body.model.as_deref())?;
    let returns_texts = request.body.return_documents == Some(true);
    let wanted = request.body.translate()?;
    let ranking = rerank(&state.service, &models, model, &wanted, &request.options).await?;
    let headers = ranking.work.headers();
    let reply = RerankReply {
        version,
        model: models.name_of(model).to_owned(),
        tokens: ranking.work.tokens(),
        ranks: ranking.texts,
        texts: returns_texts.then_some(wanted.texts),
    };
    json_reply(state, reply.len(), headers, reply).await
}

impl RerankBody {
    fn translate(self) -> Result<RerankRequest, ApiError> {
        self.refuse_unsupported()?;
        let missing = |field: &'static str, what| {
            ApiError::invalid(field, format!("`{field}` is missing; it has {what}"))
        };
        let documents = self
            .documents
            .ok_or_else(|| missing("documents", "the texts to order"))?;
        Ok(RerankRequest {
            query: self
                .query
                .ok_or_else(|| missing("query", "the text that the documents may answer"))?,
            texts: documents.texts("documents")?,
            field: "documents",
            limit: self.top_n,
            raw_scores: false,
            truncation: Truncation {
                truncate: self.truncation,
                left: None,
            },
        })
    }

    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let lengths = [
            ("max_tokens_per_doc", self.max_tokens_per_doc),
            ("max_chunks_per_doc", self.max_chunks_per_doc),
        ];
        if let Some((field, _)) = lengths.iter().find(|(_, value)| value.is_some()) {
            let message = format!(
                "`{field}` cannot be chosen by a request; set `max_length` in the flow file, in the \
                 reranker's `uses_with`"
            );
            return Err(ApiError::invalid(field, message));
        }
        match self.rank_fields.as_deref() {
            None | Some([]) => {}
            Some([only]) if only == "text" => {}
            Some(_) => {
                let message = "`rank_fields` can be `[\"text\"]` only: a document is a text, or `{\"text\": …}`";
                return Err(ApiError::invalid("rank_fields", message));
            }
        }
        if self.top_n == Some(0) {
            let message = "`top_n` must be at least 1, is 0";
            return Err(ApiError::invalid("top_n", message));
        }
        Ok(())
    }
}

impl RerankReply {
    /// About how many bytes the reply takes as JSON.
    fn len(&self) -> usize {
        let texts = self.ranks.iter().filter_map(|rank| self.text(rank));
        self.ranks.len() * ENTRY_LEN + texts.map(str::len).sum::<usize>()
    }

    fn text(&self, rank: &RankedText) -> Option<&str> {
        let texts = self.texts.as_ref()?;
        texts.get(rank.index).map(String::as_str)
    }
}

impl Serialize for RerankReply {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Body<'r> {
            id: String,
            results: Vec<Rank<'r>>,
            meta: Value,
            /// As in Jina AI's API.
            #[serde(skip_serializing_if = "Option::is_none")]
            model: Option<&'r str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            usage: Option<Value>,
        }
        let ranks = self.ranks.iter().map(|rank| Rank {
            index: rank.index,
            relevance_score: rank.score,
            document: self.text(rank).map(|text| RankDocument { text }),
        });
        let (number, model) = match self.version {
            Version::First => ("1", Some(self.model.as_str())),
            Version::Second => ("2", None),
        };
        let usage = self.tokens.filter(|_| model.is_some());
        Body {
            id: RequestId::random().into(),
            results: ranks.collect(),
            meta: json!({
                "api_version": { "version": number },
                "billed_units": { "search_units": 1 },
            }),
            model,
            usage: usage.map(|tokens| json!({ "total_tokens": tokens })),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::json_request::parse;
    use super::*;

    fn translate(body: &Value) -> Result<RerankRequest, ApiError> {
        let body = serde_json::to_vec(body).unwrap();
        parse::<RerankBody>(&body, RERANK_FIELDS)?.translate()
    }

    #[test]
    fn documents_are_texts_or_objects_with_a_text() {
        let body = json!({"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1});
        let request = translate(&body).unwrap();
        assert_eq!(request.texts, ["a", "b"]);
        assert_eq!((request.limit, request.raw_scores), (Some(1), false));
    }

    #[test]
    fn what_is_missing_or_unsupported_is_named() {
        let with = |field: &str, value: Value| {
            let mut body = json!({"query": "q", "documents": ["a"]});
            body[field] = value;
            body
        };
        for (body, field) in [
            (json!({"documents": ["a"]}), "query"),
            (json!({"query": "q"}), "documents"),
            (with("documents", json!([[1, 2]])), "documents"),
            (with("top_n", json!(0)), "top_n"),
            (with("max_tokens_per_doc", json!(9)), "max_tokens_per_doc"),
            (with("max_chunks_per_doc", json!(9)), "max_chunks_per_doc"),
            (with("rank_fields", json!(["title"])), "rank_fields"),
        ] {
            assert_eq!(translate(&body).unwrap_err().field, Some(field), "{body}");
        }
        assert!(translate(&with("rank_fields", json!(["text"]))).is_ok());
    }

    fn reply(version: Version, texts: Option<&[&str]>) -> Value {
        let texts = texts.map(|texts| texts.iter().map(|&it| it.to_owned()).collect());
        let reply = RerankReply {
            version,
            model: "m".to_owned(),
            ranks: vec![RankedText {
                index: 1,
                score: 0.5,
            }],
            texts,
            tokens: Some(9),
        };
        let mut reply = serde_json::to_value(&reply).unwrap();
        reply.as_object_mut().unwrap().remove("id");
        reply
    }

    #[test]
    fn each_version_has_a_reply_of_its_own() {
        let meta = |version| json!({"api_version": {"version": version}, "billed_units": {"search_units": 1}});
        let second = json!({"results": [{"index": 1, "relevance_score": 0.5}], "meta": meta("2")});
        assert_eq!(reply(Version::Second, None), second);
        let document = json!({"text": "b"});
        let first = json!({
            "results": [{"index": 1, "relevance_score": 0.5, "document": document}],
            "meta": meta("1"), "model": "m", "usage": {"total_tokens": 9},
        });
        assert_eq!(reply(Version::First, Some(&["a", "b"])), first);
    }
}
