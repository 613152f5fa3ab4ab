//! Turns texts into token ids.
//!
//! The ids of a text must not depend on the other texts, so there is no padding here. The end of a long text is cut off by the
//! library, and its beginning here; both keep the special tokens.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokenizers::{PostProcessor, TruncationParams};

use crate::truncation::{TruncationDirection, readable};

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
        let input = self.input("", &prompt, TruncationDirection::Right);
        let encoding = self.inner.encode_fast(input, true);
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
        direction: TruncationDirection,
    ) -> Result<Vec<Vec<u32>>, TokenizerError> {
        let ids = |text: &T| self.ids(text.as_ref(), prompt, direction);
        texts.iter().map(ids).collect()
    }

    /// The token ids of one text after a prompt. If there are too many, the text loses its last tokens, or its first ones;
    /// the prompt is not cut from the left.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub fn ids(
        &self,
        text: &str,
        prompt: &Prompt,
        direction: TruncationDirection,
    ) -> Result<Vec<u32>, TokenizerError> {
        let input = self.input(text, prompt, direction);
        let tokenizer = match direction {
            TruncationDirection::Right => &self.inner,
            TruncationDirection::Left => self.whole(),
        };
        let encoding = tokenizer.encode_fast(input, true);
        let encoding = encoding.map_err(TokenizerError::Tokenize)?;
        let ids = encoding.get_ids();
        let excess = ids.len().saturating_sub(self.max_length);
        if excess == 0 {
            return Ok(ids.to_vec());
        }
        let special = encoding.get_special_tokens_mask();
        let kept = kept_at_the_beginning(special, prompt, self.max_length);
        Ok([&ids[..kept], &ids[kept + excess..]].concat())
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
        let encoding = self.whole().encode_char_offsets(text, with_special);
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
        let text = self.whole().decode(ids, skip_special);
        text.map_err(TokenizerError::Tokenize)
    }

    /// The first of these ids that the vocabulary does not have.
    #[must_use]
    pub fn unknown(&self, ids: &[u32]) -> Option<u32> {
        let whole = self.whole();
        let mut ids = ids.iter().copied();
        ids.find(|id| whole.id_to_token(*id).is_none())
    }

    /// Whether a text after a prompt has more tokens than the model reads.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub fn truncates(
        &self,
        text: &str,
        prompt: &Prompt,
        direction: TruncationDirection,
    ) -> Result<bool, TokenizerError> {
        let input = self.input(text, prompt, direction);
        let tokenizer = match direction {
            TruncationDirection::Right => &self.inner,
            TruncationDirection::Left => self.whole(),
        };
        let encoding = tokenizer.encode_fast(input, true);
        let encoding = encoding.map_err(TokenizerError::Tokenize)?;
        Ok(encoding.len() > self.max_length || !encoding.get_overflowing().is_empty())
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
    fn whole(&self) -> &tokenizers::Tokenizer {
        // Others wait for the first one, so that the vocabulary is copied once.
        self.whole.get_or_init(|| {
            let mut whole = self.inner.clone();
            whole
                .with_truncation(None)
                .expect("only the parameters of a truncation can be wrong");
            whole
        })
    }

    fn input<'a>(
        &self,
        text: &'a str,
        prompt: &Prompt,
        direction: TruncationDirection,
    ) -> Cow<'a, str> {
        let text = readable(text, self.max_length, direction);
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

/// How many tokens stay in front of a text that loses its first ones: those of the prompt and special ones. `special` tells which
/// tokens are special.
fn kept_at_the_beginning(special: &[u32], prompt: &Prompt, max_length: usize) -> usize {
    let is_special = |mask: &&u32| **mask == 1;
    let first = special.iter().take_while(is_special).count();
    let last = special.iter().rev().take_while(is_special).count();
    prompt
        .length
        .max(first)
        .min(max_length.saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_and_the_prompt_stay_in_front_of_a_text() {
        let kept = |length, max| {
            let prompt = Prompt {
                text: String::new(),
                length,
            };
            kept_at_the_beginning(&[1, 0, 0, 0, 0, 1], &prompt, max)
        };
        assert_eq!(kept(0, 4), 1);
        assert_eq!(kept(3, 5), 3);
        assert_eq!(kept(4, 4), 3);
    }
}
