//! Turns texts into token ids.
//!
//! The ids of a text must not depend on the other texts, so there is no padding here. Texts are truncated by the tokenizer
//! itself, which keeps the special tokens.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokenizers::{PostProcessor, TruncationParams};

/// Turns texts into token ids, with the `tokenizers` library of Hugging Face.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The same without truncation; made when it is first used, because it has a vocabulary of its own.
    whole: OnceLock<tokenizers::Tokenizer>,
    lower_case: bool,
    max_length: usize,
}

/// A text that is put before each text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    /// Number of leading tokens that belong to it, including special tokens before it.
    pub(crate) length: usize,
}

/// Words of a text that are tokenized, for each token that the model reads. A word has one token at least, unless it
/// consists of characters that the tokenizer drops.
const WORDS_PER_TOKEN: usize = 2;

/// Bytes of a text that are tokenized, for each token that the model reads. English has four to five.
const BYTES_PER_TOKEN: usize = 512;

/// Options of a [`Tokenizer`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenizerOptions {
    /// Maximum tokens of a text, including special tokens.
    pub max_length: usize,
    /// Whether inputs are lower-cased first.
    pub lower_case: bool,
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: u32,
    /// Its text in the vocabulary.
    pub text: String,
    /// Whether the tokenizer added it, such as `[CLS]`.
    pub is_special: bool,
    /// The characters of the text that it stands for; `0..0` for special tokens.
    pub range: Range<usize>,
}

/// A tokenizer could not be loaded, or failed.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file is not a tokenizer.
    #[error("`{path}` is not a tokenizer")]
    Load {
        /// The file.
        path: PathBuf,
        /// The error of the library.
        #[source]
        source: tokenizers::Error,
    },
    /// `max_length` leaves no token for the text.
    #[error(
        "`max_length` is {requested}; it must be more than {special}, the number of special tokens"
    )]
    MaxLength {
        /// The requested length.
        requested: usize,
        /// Number of special tokens of each text.
        special: usize,
    },
    /// `max_length` leaves no token for one of the texts of a pair.
    #[error(
        "`max_length` is {requested}; it must be at least 2 more than {special}, the number of special tokens of a pair of texts"
    )]
    PairMaxLength {
        /// The requested length.
        requested: usize,
        /// Number of special tokens of each pair.
        special: usize,
    },
    /// A text could not be tokenized.
    #[error("the tokenizer failed")]
    Tokenize(#[source] tokenizers::Error),
}

impl Tokenizer {
    /// Loads a tokenizer from a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// If the file is not a tokenizer, or `max_length` leaves no token for the text.
    pub fn load(path: &Path, options: TokenizerOptions) -> Result<Self, TokenizerError> {
        let mut inner =
            tokenizers::Tokenizer::from_file(path).map_err(|source| TokenizerError::Load {
                path: path.to_owned(),
                source,
            })?;
        let special = inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(false));
        if options.max_length <= special {
            return Err(TokenizerError::MaxLength {
                requested: options.max_length,
                special,
            });
        }
        let truncation = TruncationParams {
            max_length: options.max_length,
            ..Default::default()
        };
        inner
            .with_truncation(Some(truncation))
            .map_err(TokenizerError::Tokenize)?;
        inner.with_padding(None);
        Ok(Self {
            inner,
            whole: OnceLock::new(),
            lower_case: options.lower_case,
            max_length: options.max_length,
        })
    }

    /// A prompt, whose tokens are counted.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub fn prompt(&self, text: String) -> Result<Prompt, TokenizerError> {
        let mut prompt = Prompt { text, length: 0 };
        if prompt.text.is_empty() {
            return Ok(prompt);
        }
        let encoding = self.inner.encode_fast(self.input("", &prompt), true);
        let encoding = encoding.map_err(TokenizerError::Tokenize)?;
        let ends_with_special = encoding.get_special_tokens_mask().last() == Some(&1);
        prompt.length = encoding.len() - usize::from(ends_with_special);
        Ok(prompt)
    }

    /// The token ids of each text after a prompt, computed on this thread.
    ///
    /// # Errors
    ///
    /// If a text cannot be tokenized.
    pub fn encode<T: AsRef<str>>(
        &self,
        texts: &[T],
        prompt: &Prompt,
    ) -> Result<Vec<Vec<u32>>, TokenizerError> {
        let ids = |text: &T| self.ids(text.as_ref(), prompt);
        texts.iter().map(ids).collect()
    }

    /// The token ids of one text after a prompt.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub fn ids(&self, text: &str, prompt: &Prompt) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.inner.encode_fast(self.input(text, prompt), true);
        let encoding = encoding.map_err(TokenizerError::Tokenize)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The tokens of one text as they are written, without the prompt and without truncation.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub fn tokens(&self, text: &str, with_special: bool) -> Result<Vec<Token>, TokenizerError> {
        let text = match self.lower_case {
            true => Cow::Owned(text.to_lowercase()),
            false => Cow::Borrowed(text),
        };
        let encoding = self.whole()?.encode_char_offsets(text, with_special);
        let encoding = encoding.map_err(TokenizerError::Tokenize)?;
        let texts = encoding.get_tokens().iter();
        let special = encoding.get_special_tokens_mask().iter();
        let places = encoding.get_offsets().iter().zip(special);
        let all = encoding.get_ids().iter().zip(texts).zip(places);
        Ok(all
            .map(|((&id, text), (&(start, stop), &special))| Token {
                id,
                text: text.clone(),
                is_special: special == 1,
                range: start..stop,
            })
            .collect())
    }

    /// The text of these tokens.
    ///
    /// # Errors
    ///
    /// If the tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        let text = self.whole()?.decode(ids, skip_special);
        text.map_err(TokenizerError::Tokenize)
    }

    /// Whether a text after a prompt has more tokens than the model reads, so that its end is cut off.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub fn truncates(&self, text: &str, prompt: &Prompt) -> Result<bool, TokenizerError> {
        let encoding = self.inner.encode_fast(self.input(text, prompt), true);
        let encoding = encoding.map_err(TokenizerError::Tokenize)?;
        Ok(!encoding.get_overflowing().is_empty())
    }

    /// The id of the padding token, or 0 if there is none.
    #[must_use]
    pub fn padding_id(&self) -> u32 {
        ["[PAD]", "<pad>"]
            .iter()
            .find_map(|token| self.inner.token_to_id(token))
            .unwrap_or(0)
    }

    /// The tokenizer without truncation.
    fn whole(&self) -> Result<&tokenizers::Tokenizer, TokenizerError> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let mut whole = self.inner.clone();
        whole
            .with_truncation(None)
            .map_err(TokenizerError::Tokenize)?;
        Ok(self.whole.get_or_init(|| whole))
    }

    fn input<'a>(&self, text: &'a str, prompt: &Prompt) -> Cow<'a, str> {
        let text = readable(text, self.max_length);
        let text = match prompt.text.as_str() {
            "" => Cow::Borrowed(text),
            prompt => Cow::Owned([prompt, text].concat()),
        };
        if self.lower_case {
            Cow::Owned(text.to_lowercase())
        } else {
            text
        }
    }
}

/// The beginning of a text that a model can read with this many tokens. The rest would be tokenized and then cut off, and a
/// long text would keep the texts of others waiting.
pub(crate) fn readable(text: &str, max_length: usize) -> &str {
    // A token has one byte at least.
    if text.len() <= max_length {
        return text;
    }
    let mut end = text.len().min(max_length.saturating_mul(BYTES_PER_TOKEN));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    let words = max_length.saturating_mul(WORDS_PER_TOKEN);
    match text.split_whitespace().nth(words) {
        Some(next) => &text[..next.as_ptr().addr() - text.as_ptr().addr()],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_model_stops_reading() {
        assert_eq!(readable("a b c d e f", 2), "a b c d ");
        assert_eq!(readable("a b c", 2), "a b c");
        assert_eq!(readable("ab", 2), "ab");
        let long = "é".repeat(10_000);
        assert_eq!(readable(&long, 3).len(), 3 * BYTES_PER_TOKEN);
        let odd = format!("x{long}");
        assert_eq!(readable(&odd, 3).len(), 3 * BYTES_PER_TOKEN - 1);
        assert_eq!(readable(&long, usize::MAX), long);
    }
}
