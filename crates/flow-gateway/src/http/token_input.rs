//! Turns the token ids of a request into texts.
//!
//! The ids are those of the model's own vocabulary. If the request names one of OpenAI's models, which a flow can give its model as a second
//! name, they are those of `cl100k_base`, the vocabulary of OpenAI's models for embeddings.

use std::sync::OnceLock;

use flow_core::{CallOptions, Code, Document, DocumentArray};
use serde_json::{Map, json};
use tiktoken_rs::CoreBPE;

use super::api_error::ApiError;
use super::model_call::{DocumentsCall, inputs_max};
use super::models::ServedModel;
use super::parse_memory::ParseMemory;
use super::tei::tokens::{DECODE, IDS, check_offered};
use super::text_input::{TextEntry, TextInput};
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

/// About what an id, and a document with a list of them, take in memory until they are text.
const ID_MEMORY: usize = 64;
const DOCUMENT_MEMORY: usize = 600;

/// Bytes of text for one id, about.
const ID_LEN: usize = 5;

/// A request for vectors of texts, of which some are token ids.
pub(super) struct TokenInput<'r> {
    pub(super) service: &'r GatewayService,
    pub(super) model: &'r ServedModel,
    /// The name of the model in the request.
    pub(super) name: Option<&'r str>,
    pub(super) options: &'r CallOptions,
    /// Where texts count that are made of ids: a few bytes may stand for a hundred.
    pub(super) memory: &'r mut ParseMemory,
    /// The field that has the texts.
    pub(super) field: &'static str,
}

impl TokenInput<'_> {
    /// The texts of a request.
    pub(super) async fn texts(mut self, input: TextInput) -> Result<Vec<String>, ApiError> {
        let mut ids = Vec::new();
        let texts = input.entries.into_iter().map(|entry| match entry {
            TextEntry::Text(text) => Some(text),
            TextEntry::Tokens(tokens) => {
                ids.push(tokens);
                None
            }
        });
        let texts: Vec<Option<String>> = texts.collect();
        if ids.is_empty() {
            return Ok(texts.into_iter().flatten().collect());
        }
        self.check(&ids, texts.len())?;
        let mut decoded = self.decode(ids).await?.into_iter();
        let text = |text: Option<String>| text.or_else(|| decoded.next()).unwrap_or_default();
        Ok(texts.into_iter().map(text).collect())
    }

    /// Checks how many ids and texts there are, and counts the memory that they take.
    fn check(&mut self, ids: &[Vec<u32>], texts: usize) -> Result<(), ApiError> {
        let field = self.field;
        let invalid = |message: String| ApiError::invalid(field, message);
        let texts_max = inputs_max(self.service);
        if texts > texts_max {
            return Err(invalid(format!(
                "`{field}` has {texts} texts; at most {texts_max} are allowed (`documents_max`)"
            )));
        }
        if ids.iter().any(Vec::is_empty) {
            return Err(invalid(format!(
                "a list of token ids in `{field}` is empty"
            )));
        }
        let max = if self.is_of_openai() {
            IDS_MAX
        } else {
            OWN_IDS_MAX
        };
        let count: usize = ids.iter().map(Vec::len).sum();
        if count > max {
            return Err(invalid(format!(
                "`{field}` has {count} token ids, and {max} are allowed; send it in several requests"
            )));
        }
        Ok(self
            .memory
            .hold(count * ID_MEMORY + ids.len() * DOCUMENT_MEMORY)?)
    }

    fn is_of_openai(&self) -> bool {
        self.name.is_some_and(|name| OF_OPENAI.contains(&name))
    }

    /// The texts of these ids, which count in the memory of the request.
    async fn decode(&mut self, ids: Vec<Vec<u32>>) -> Result<Vec<String>, ApiError> {
        let decoded = match self.is_of_openai() {
            true => self.decode_cl100k(ids).await?,
            false => self.ask_tokenizer(ids).await?,
        };
        let len = decoded.iter().map(String::len).sum();
        self.memory.hold_texts(len)?;
        Ok(decoded)
    }

    async fn decode_cl100k(&self, ids: Vec<Vec<u32>>) -> Result<Vec<String>, ApiError> {
        let count: usize = ids.iter().map(Vec::len).sum();
        // Loading the vocabulary takes as long as a large request.
        let work = if VOCABULARY.get().is_some() {
            count * ID_LEN
        } else {
            usize::MAX
        };
        let heavy = self.service.snapshot().shared.heavy.clone();
        let decoded = heavy.run(work, move || Ok(decode_cl100k(&ids))).await?;
        decoded.map_err(|id| {
            let field = self.field;
            let message = format!(
                "`{field}` has the token id {id}, which the vocabulary `cl100k_base` of OpenAI's models does not have"
            );
            ApiError::invalid(field, message)
        })
    }

    /// The texts that the model's own tokenizer makes of the ids.
    async fn ask_tokenizer(&self, ids: Vec<Vec<u32>>) -> Result<Vec<String>, ApiError> {
        let snapshot = self.service.snapshot();
        check_offered(&snapshot, DECODE, self.model)?;
        let count: usize = ids.iter().map(Vec::len).sum();
        let work = count * ID_MEMORY + ids.len() * DOCUMENT_MEMORY;
        let documents = snapshot.shared.heavy.run(work, move || Ok(documents(&ids)));
        let parameters = Map::from_iter([("skip_special_tokens".to_owned(), true.into())]);
        let call = DocumentsCall {
            executor: Some(&self.model.executor),
            endpoint: DECODE,
            parameters: &parameters,
            options: self.options,
        };
        let reply = call
            .send(self.service, documents.await?, Part::Preparation)
            .await;
        let reply = reply.map_err(|failure| match failure.code() {
            Code::BadRequest => ApiError::invalid(self.field, failure.message()),
            _ => failure.into(),
        })?;
        Ok(reply.documents.iter().map(Document::text).collect())
    }
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

/// The texts of ids of `cl100k_base`. What is no whole character, because a client cut the text between two tokens, becomes U+FFFD. An
/// error is an id that the vocabulary does not have.
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
        // Made by OpenAI's tiktoken 0.11.
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
