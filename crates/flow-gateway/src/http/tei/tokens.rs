//! `POST /tokenize` and `POST /decode`, which executors with a tokenizer answer.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use flow_core::{CallOptions, Document, DocumentArray};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value, json};

use super::super::api_error::{ApiError, ErrorKind};
use super::super::json_request::{JsonRequest, json_reply};
use super::super::model_call::{DocumentsCall, inputs_max};
use super::super::models::{ServedModel, ServedModels};
use super::super::prompts;
use super::super::state::HttpState;
use super::super::text_input::TextInput;
use super::errors::failed;
use crate::request_record::Part;
use crate::snapshot::Snapshot;

const TOKENIZE_FIELDS: &[&str] = &["inputs", "add_special_tokens", "prompt_name", "model"];
const DECODE_FIELDS: &[&str] = &["ids", "skip_special_tokens", "model"];

/// Endpoints of executors that have a tokenizer.
pub(crate) const TOKENIZE: &str = "/to_tokens";
pub(crate) const DECODE: &str = "/from_tokens";

/// Tags of the documents that such an executor returns.
const TOKENS: &str = "tokens";
pub(crate) const IDS: &str = "ids";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TokenizeBody {
    inputs: Option<TextInput>,
    add_special_tokens: Option<bool>,
    prompt_name: Option<String>,
    model: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DecodeBody {
    ids: Option<Ids>,
    skip_special_tokens: Option<bool>,
    model: Option<String>,
}

/// The token ids of one text or of several.
#[derive(Debug)]
struct Ids(Vec<Vec<u32>>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let one = Vec::<u32>::deserialize(&value).map(|ids| vec![ids]);
        let several = || Vec::<Vec<u32>>::deserialize(&value);
        let ids = one
            .or_else(|_| several())
            .map_err(|_| Error::custom("expected a list of token ids, or a list of such lists"))?;
        Ok(Self(ids))
    }
}

pub(super) async fn tokenize(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer_tokenize(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer_tokenize(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let request: JsonRequest<TokenizeBody> =
        JsonRequest::read(state, request, TOKENIZE_FIELDS).await?;
    let TokenizeBody {
        inputs,
        add_special_tokens,
        prompt_name,
        model,
    } = request.body;
    let missing = || ApiError::invalid("inputs", "`inputs` is missing; it has the texts");
    let texts = inputs.ok_or_else(missing)?.texts("inputs")?;
    check_count(state, "inputs", texts.len())?;
    let documents = texts.iter().map(|text| Document::from_text(text));
    let call = TokenCall {
        endpoint: TOKENIZE,
        model: model.as_deref(),
        flag: ("add_special_tokens", add_special_tokens),
        prompt: prompt_name.as_deref(),
    };
    let reply = call
        .send(state, documents.collect(), &request.options)
        .await?;
    let tokens = reply.iter().map(|document| {
        let tokens = document.tags().remove(TOKENS);
        tokens.unwrap_or_else(|| json!([]))
    });
    let tokens: Vec<Value> = tokens.collect();
    json_reply(state, 0, HeaderMap::new(), tokens).await
}

pub(super) async fn decode(State(state): State<HttpState>, request: Request) -> Response {
    let reply = answer_decode(&state, request).await;
    reply.unwrap_or_else(|error| failed(&error))
}

async fn answer_decode(state: &HttpState, request: Request) -> Result<Response, ApiError> {
    let request: JsonRequest<DecodeBody> = JsonRequest::read(state, request, DECODE_FIELDS).await?;
    let DecodeBody {
        ids,
        skip_special_tokens,
        model,
    } = request.body;
    let missing = || ApiError::invalid("ids", "`ids` is missing; it has the token ids");
    let ids = ids.ok_or_else(missing)?.0;
    check_count(state, "ids", ids.len())?;
    let documents = ids.iter().map(|ids| {
        let mut document = Document::new();
        document.set_tags(&Map::from_iter([(IDS.to_owned(), json!(ids))]));
        document
    });
    let call = TokenCall {
        endpoint: DECODE,
        model: model.as_deref(),
        flag: ("skip_special_tokens", skip_special_tokens),
        prompt: None,
    };
    let reply = call
        .send(state, documents.collect(), &request.options)
        .await?;
    let texts: Vec<String> = reply.iter().map(Document::text).collect();
    json_reply(state, 0, HeaderMap::new(), texts).await
}

/// A call of the tokenizer of a model.
struct TokenCall<'c> {
    endpoint: &'static str,
    model: Option<&'c str>,
    /// The name and the value of a parameter.
    flag: (&'static str, Option<bool>),
    /// The name of the prompt before the texts.
    prompt: Option<&'c str>,
}

impl TokenCall<'_> {
    /// Sends documents to the executor of the model, if it offers the endpoint.
    async fn send(
        self,
        state: &HttpState,
        documents: DocumentArray,
        options: &CallOptions,
    ) -> Result<DocumentArray, ApiError> {
        let snapshot = state.service.snapshot();
        let models = ServedModels::of(&snapshot).await;
        let model = models.find_any(self.model)?;
        check_offered(&snapshot, self.endpoint, model)?;
        let mut parameters = Map::new();
        if let (name, Some(flag)) = self.flag {
            parameters.insert(name.to_owned(), flag.into());
        }
        if let Some(name) = self.prompt {
            prompts::choose(&mut parameters, model, name)?;
        }
        let call = DocumentsCall {
            executor: Some(&model.executor),
            endpoint: self.endpoint,
            parameters: &parameters,
            options,
        };
        let reply = call.send(&state.service, documents, Part::Whole).await?;
        Ok(reply.documents)
    }
}

/// Checks that the executor of a model offers an endpoint.
pub(crate) fn check_offered(
    snapshot: &Snapshot,
    endpoint: &str,
    model: &ServedModel,
) -> Result<(), ApiError> {
    let mut nodes = snapshot.nodes();
    let node = nodes.find(|(plan, _)| plan.name.as_str() == model.executor);
    if node.is_some_and(|(_, node)| node.endpoints.names(endpoint)) {
        return Ok(());
    }
    let message = format!("executor `{}` does not offer `{endpoint}`", model.executor);
    Err(ApiError::new(ErrorKind::NoModel, message))
}

fn check_count(state: &HttpState, field: &'static str, count: usize) -> Result<(), ApiError> {
    let max = inputs_max(&state.service);
    match count {
        0 => Err(ApiError::new(
            ErrorKind::Empty,
            format!("`{field}` is empty"),
        )),
        count if count > max => {
            let message = format!(
                "`{field}` has {count} entries; at most {max} are allowed (`documents_max`)"
            );
            Err(ApiError::invalid(field, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_one_text_or_of_several() {
        let read = |json| serde_json::from_value::<Ids>(json).map(|ids| ids.0);
        assert_eq!(read(json!([1, 2])).unwrap(), [[1, 2]]);
        assert_eq!(read(json!([[1], [2]])).unwrap(), [[1], [2]]);
        assert!(read(json!(["a"])).is_err());
        assert!(read(json!([-1])).is_err());
    }
}
