//! Turns the token ids of a request into texts.
//!
//! The ids are those of the model's own vocabulary. If the request names one of OpenAI's models, which a flow can give its model as a second
//! name, they are those of `cl100k_base`, the vocabulary of OpenAI's models for embeddings.

use std::sync::OnceLock;

use flow_core::{CallOptions, Code, Document, DocumentArray};
use serde_json::{Map, json};
use tiktoken_rs::CoreBPE;

use super::api_error::ApiError;
use super::json_request::JsonRequest;
use super::model_call::{DocumentsCall, check_count};
use super::models::ServedModel;
use super::tei::tokens::{DECODE, IDS, check_offered};
use super::text_input::{TextEntry, TextInput};
use crate::auth;
use crate::request_record::Part;
use crate::service::GatewayService;

/// OpenAI's models for embeddings.
const OF_OPENAI: [&str; 3] = [
    "text-embedding-ada-002",
    "text-embedding-3-small",
    "text-embedding-3-large",
];

/// Ids in one request, as in OpenAI's API.
const IDS_MAX: usize = 300_000;

/// Ids in one request of the model's own vocabulary: as many as its executor decodes in one call.
const OWN_IDS_MAX: usize = 1 << 17;

/// What an id, and a document with a list of them, take in memory at most until they are text. Measured: 275 bytes for each id of
/// a long list, and 547 for each document with one id.
const ID_MEMORY: usize = 280;
const DOCUMENT_MEMORY: usize = 300;

/// A field with texts, of which some may be token ids, and the model that is to read them.
pub(super) struct TokenInput<'r> {
    pub(super) service: &'r GatewayService,
    pub(super) model: &'r ServedModel,
    /// The name of the model in the request.
    pub(super) name: Option<&'r str>,
    pub(super) field: &'static str,
}

impl TokenInput<'_> {
    /// The texts of a request. Those that are made of ids count in its memory: a few bytes may stand for a hundred.
    pub(super) async fn texts<T>(
        &self,
        input: TextInput,
        request: &mut JsonRequest<T>,
    ) -> Result<Vec<String>, ApiError> {
        if !input.has_tokens() {
            return input.texts(self.field);
        }
        check_count(self.service, self.field, input.entries.len())?;
        let mut ids = Vec::new();
        let texts = input.entries.into_iter().map(|entry| match entry {
            TextEntry::Text(text) => Some(text),
            TextEntry::Tokens(tokens) => {
                ids.push(tokens);
                None
            }
        });
        let texts: Vec<Option<String>> = texts.collect();
        self.check(&ids)?;
        let (options, memory) = request.parts();
        let held = memory_of(&ids);
        memory.hold(held)?;
        let decoded = match self.is_of_openai() {
            true => self.decode_cl100k(ids).await?,
            false => self.ask_tokenizer(ids, options).await?,
        };
        memory.give_back(held);
        memory.hold_texts(decoded.iter().map(String::len).sum())?;
        let mut decoded = decoded.into_iter();
        let text = |text: Option<String>| text.or_else(|| decoded.next()).unwrap_or_default();
        Ok(texts.into_iter().map(text).collect())
    }

    /// Checks the number of ids, and that the key of the request allows the call for which they are decoded.
    fn check(&self, ids: &[Vec<u32>]) -> Result<(), ApiError> {
        let field = self.field;
        if ids.iter().any(Vec::is_empty) {
            let message = format!("a list of token ids in `{field}` is empty");
            return Err(ApiError::invalid(field, message));
        }
        let max = match self.is_of_openai() {
            true => IDS_MAX,
            false => OWN_IDS_MAX,
        };
        let count = count(ids);
        if count > max {
            let message = format!(
                "`{field}` has {count} token ids, and {max} are allowed; send it in several requests"
            );
            return Err(ApiError::invalid(field, message));
        }
        match auth::current() {
            Some(identity) => Ok(identity.check_endpoint(Some(&self.model.endpoint))?),
            None => Ok(()),
        }
    }

    fn is_of_openai(&self) -> bool {
        self.name.is_some_and(|name| OF_OPENAI.contains(&name))
    }

    async fn decode_cl100k(&self, ids: Vec<Vec<u32>>) -> Result<Vec<String>, ApiError> {
        // Loading the vocabulary takes as long as decoding a large request.
        let work = match VOCABULARY.get() {
            Some(_) => memory_of(&ids),
            None => usize::MAX,
        };
        let decode = move || Ok(decode_cl100k(&ids));
        let decoded = self.service.heavy().run(work, decode).await?;
        decoded.map_err(|id| {
            let field = self.field;
            let message = format!(
                "`{field}` has the token id {id}, which the vocabulary `cl100k_base` of OpenAI's models does not have"
            );
            ApiError::invalid(field, message)
        })
    }

    /// The texts that the model's own tokenizer makes of the ids.
    async fn ask_tokenizer(
        &self,
        ids: Vec<Vec<u32>>,
        options: &CallOptions,
    ) -> Result<Vec<String>, ApiError> {
        check_offered(&self.service.snapshot(), DECODE, self.model)?;
        let work = memory_of(&ids);
        let documents = move || Ok(documents(&ids));
        let documents = self.service.heavy().run(work, documents).await?;
        let parameters = Map::from_iter([("skip_special_tokens".to_owned(), true.into())]);
        let call = DocumentsCall {
            executor: Some(&self.model.executor),
            endpoint: DECODE,
            parameters: &parameters,
            options,
        };
        let reply = call.send(self.service, documents, Part::Preparation).await;
        let reply = reply.map_err(|failure| match failure.code() {
            Code::BadRequest => ApiError::invalid(self.field, failure.message()),
            _ => failure.into(),
        })?;
        Ok(reply.documents.iter().map(Document::text).collect())
    }
}

fn count(ids: &[Vec<u32>]) -> usize {
    ids.iter().map(Vec::len).sum()
}

/// The memory that ids take until they are texts.
fn memory_of(ids: &[Vec<u32>]) -> usize {
    count(ids) * ID_MEMORY + ids.len() * DOCUMENT_MEMORY
}

/// A document for each list of ids.
fn documents(ids: &[Vec<u32>]) -> DocumentArray {
    let document = |ids: &Vec<u32>| {
        let mut document = Document::new();
        document.set_tags(&Map::from_iter([(IDS.to_owned(), json!(ids))]));
        document
    };
    ids.iter().map(document).collect()
}

/// The vocabulary of OpenAI's models, once a request has needed it.
static VOCABULARY: OnceLock<CoreBPE> = OnceLock::new();

/// Decodes ids of `cl100k_base`. Part of a character, such as at the end of a text that a client cut between two tokens, becomes U+FFFD.
///
/// # Errors
///
/// The first id that the vocabulary does not have.
fn decode_cl100k(ids: &[Vec<u32>]) -> Result<Vec<String>, u32> {
    let vocabulary = VOCABULARY
        .get_or_init(|| tiktoken_rs::cl100k_base().expect("the vocabulary is part of the program"));
    let decode = |ids: &Vec<u32>| {
        let bytes = vocabulary.decode_bytes(ids).map_err(|error| error.token)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    ids.iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_openai_s_models_become_texts() {
        // Made by OpenAI's tiktoken 0.14.
        let ids = vec![vec![15339, 1917], vec![30, 220, 90115], vec![]];
        let texts = decode_cl100k(&ids).unwrap();
        assert_eq!(texts, ["hello world", "? こんにちは", ""]);
    }

    #[test]
    fn a_part_of_a_character_is_replaced() {
        let texts = decode_cl100k(&[vec![15339, 222]]).unwrap();
        assert_eq!(texts, ["hello\u{fffd}"]);
    }

    #[test]
    fn an_id_that_the_vocabulary_does_not_have_is_named() {
        let outcome = decode_cl100k(&[vec![15339], vec![15339, 100_256]]);
        assert_eq!(outcome, Err(100_256));
    }
}
