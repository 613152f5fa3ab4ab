//! Counts, shows and decodes tokens.
//!
//! A token takes some hundred bytes while a text is tokenized, and again as a map in the tags, but one byte of a text of punctuation.
//! So the texts and the tokens of one call are limited.

use flow_core::Document;
use flow_executor::{CallError, Tokens};
use flow_inference::sums;
use flow_models::{Encoded, Token, Tokenizer};
use serde_json::{Map, Value, json};

/// The parameter of `/to_tokens` that says whether special tokens such as `[CLS]` are shown.
pub(crate) const ADD_SPECIAL: &str = "add_special_tokens";

/// The parameter of `/from_tokens` that says whether special tokens are left out of the text.
pub(crate) const SKIP_SPECIAL: &str = "skip_special_tokens";

/// The tag in which `/to_tokens` writes tokens.
const TOKENS: &str = "tokens";

/// The tag from which `/from_tokens` reads token ids.
const IDS: &str = "ids";

/// Bytes of the texts of one call of `/to_tokens` together. They are limited before they are tokenized.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Tokens of one call of `/to_tokens` or `/from_tokens` together.
const TOKENS_MAX: usize = 128 << 10;

/// Bytes of the tags in which `/from_tokens` reads [`TOKENS_MAX`] ids, in either version of DocArray, with room for other tags.
const TAG_BYTES_MAX: usize = 8 << 20;

/// The tokens of each document, and how many of its texts were cached, from how many texts each has.
pub(crate) fn usage(texts_of: &[usize], encoded: &Encoded) -> Tokens {
    let tokens: Tokens = sums(texts_of, encoded.vectors.tokens()).collect();
    match &encoded.is_cached {
        None => tokens,
        Some(texts) => {
            let texts: Vec<usize> = texts.iter().map(|&it| it.into()).collect();
            tokens.with_cached(sums(texts_of, &texts))
        }
    }
}

/// Adds the tokens of each document's text to its tags, with those of the prompt before it.
pub(crate) fn write_all(
    docs: &mut [Document],
    (tokenizer, prompt): (&Tokenizer, &str),
    add_special: bool,
) -> Result<(), CallError> {
    let mut texts = Limit::new("texts", "bytes", TEXT_BYTES_MAX);
    docs.iter()
        .try_for_each(|doc| texts.take(prompt.len() + doc.text().len()))?;
    let mut tokens = Limit::new("texts", "tokens", TOKENS_MAX);
    docs.iter_mut()
        .try_for_each(|doc| write(doc, (tokenizer, prompt), add_special, &mut tokens))
}

fn write(
    doc: &mut Document,
    (tokenizer, prompt): (&Tokenizer, &str),
    add_special: bool,
    limit: &mut Limit,
) -> Result<(), CallError> {
    let text = format!("{prompt}{}", doc.text());
    let tokens = tokenizer.tokens(&text, add_special)?;
    limit.take(tokens.len())?;
    let mut tags = doc.tags();
    tags.insert(TOKENS.to_owned(), tokens.iter().map(described).collect());
    doc.set_tags(&tags);
    Ok(())
}

/// A token as text-embeddings-inference shows it.
fn described(token: &Token) -> Value {
    let place = |at: usize| (!token.is_special).then_some(at);
    json!({
        "id": token.id,
        "text": token.text,
        "special": token.is_special,
        "start": place(token.range.start),
        "stop": place(token.range.end),
    })
}

/// Sets each document's text to that of the token ids in its tags.
pub(crate) fn decode_all(
    docs: &mut [Document],
    tokenizer: &Tokenizer,
    skip_special: bool,
) -> Result<(), CallError> {
    let mut tags = Limit::new("tags", "bytes", TAG_BYTES_MAX);
    docs.iter().try_for_each(|doc| tags.take(doc.tags_len()))?;
    let mut tokens = Limit::new("tags", "token ids", TOKENS_MAX);
    docs.iter_mut()
        .try_for_each(|doc| decode(doc, tokenizer, skip_special, &mut tokens))
}

fn decode(
    doc: &mut Document,
    tokenizer: &Tokenizer,
    skip_special: bool,
    limit: &mut Limit,
) -> Result<(), CallError> {
    let ids = ids(&doc.tags())?;
    limit.take(ids.len())?;
    if let Some(id) = tokenizer.unknown(&ids) {
        let message = format!("the model's vocabulary has no token with the id {id}");
        return Err(CallError::bad_request(message));
    }
    doc.set_text(tokenizer.decode(&ids, skip_special)?);
    Ok(())
}

fn ids(tags: &Map<String, Value>) -> Result<Vec<u32>, CallError> {
    let wrong = || CallError::bad_request(format!("the tag `{IDS}` must be a list of token ids"));
    let ids = tags.get(IDS).and_then(Value::as_array).ok_or_else(wrong)?;
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    ids.iter().map(|it| id(it).ok_or_else(wrong)).collect()
}

/// What the documents of one call may still have.
struct Limit {
    part: &'static str,
    unit: &'static str,
    max: usize,
    left: usize,
}

impl Limit {
    fn new(part: &'static str, unit: &'static str, max: usize) -> Self {
        Self {
            part,
            unit,
            max,
            left: max,
        }
    }

    fn take(&mut self, count: usize) -> Result<(), CallError> {
        let Self {
            part, unit, max, ..
        } = self;
        self.left = self.left.checked_sub(count).ok_or_else(|| {
            CallError::bad_request(format!(
                "the {part} of one call have more than {max} {unit}; send them in several requests"
            ))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_numbers() {
        let tags = |ids: Value| Map::from_iter([(IDS.to_owned(), ids)]);
        assert_eq!(ids(&tags(json!([1, 2]))).unwrap(), [1, 2]);
        for bad in [json!([1.5]), json!([-1]), json!("1"), json!(null)] {
            assert!(ids(&tags(bad.clone())).is_err(), "{bad}");
        }
        assert!(ids(&Map::new()).is_err());
    }
}
