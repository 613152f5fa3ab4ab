//! From texts to token ids.
//!
//! What a text becomes must not depend on what is beside it, so there is no padding here. Truncation
//! is the tokenizer's own, at the model's length, with the special tokens kept.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use tokenizers::{PostProcessor, TruncationParams};

/// Turns texts into ids.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    prompt: String,
    prompt_length: usize,
    lower_case: bool,
}

/// How texts are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The most tokens of a text, special ones included.
    pub max_length: usize,
    /// What stands before each text.
    pub prompt: String,
    /// Whether all is put in lower case first.
    pub lower_case: bool,
}

/// Why texts cannot become ids.
#[derive(Debug, thiserror::Error)]
pub enum TokenizeError {
    /// The tokenizer's file is none.
    #[error("`{path}` is not a tokenizer")]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: tokenizers::Error,
    },
    /// There is room for special tokens only, or not even for them.
    #[error(
        "`max_length` is {found}; it must be more than {special}, the number of special tokens"
    )]
    Length {
        /// What was asked for.
        found: usize,
        /// How many special tokens each text has.
        special: usize,
    },
    /// A text cannot be tokenized.
    #[error("the tokenizer failed")]
    Failed(#[source] tokenizers::Error),
}

impl Tokenizer {
    /// Loads a tokenizer that reads texts in this way.
    ///
    /// # Errors
    ///
    /// If the file is no tokenizer, or `max_length` leaves no room for a text.
    pub(crate) fn load(path: &Path, reading: Reading) -> Result<Self, TokenizeError> {
        let mut inner =
            tokenizers::Tokenizer::from_file(path).map_err(|source| TokenizeError::Load {
                path: path.to_owned(),
                source,
            })?;
        let special = inner
            .get_post_processor()
            .map_or(0, |last| last.added_tokens(false));
        if reading.max_length <= special {
            return Err(TokenizeError::Length {
                found: reading.max_length,
                special,
            });
        }
        let truncation = TruncationParams {
            max_length: reading.max_length,
            ..Default::default()
        };
        inner
            .with_truncation(Some(truncation))
            .map_err(TokenizeError::Failed)?;
        inner.with_padding(None);
        let Reading {
            prompt, lower_case, ..
        } = reading;
        let mut tokenizer = Self {
            inner,
            prompt,
            prompt_length: 0,
            lower_case,
        };
        tokenizer.prompt_length = tokenizer.measure_prompt()?;
        Ok(tokenizer)
    }

    /// The ids of each text, one after another on this thread.
    ///
    /// # Errors
    ///
    /// If the tokenizer cannot read a text.
    pub(crate) fn encode<T: AsRef<str>>(
        &self,
        texts: &[T],
    ) -> Result<Vec<Vec<u32>>, TokenizeError> {
        texts.iter().map(|text| self.ids(text.as_ref())).collect()
    }

    /// The ids of one text.
    ///
    /// # Errors
    ///
    /// If the tokenizer cannot read it.
    pub(crate) fn ids(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let encoding = self.inner.encode_fast(self.input(text), true);
        let encoding = encoding.map_err(TokenizeError::Failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// How many tokens of each text are the prompt's: special ones before it count, those after not.
    #[must_use]
    pub(crate) fn prompt_length(&self) -> usize {
        self.prompt_length
    }

    /// The id that stands for no token.
    #[must_use]
    pub(crate) fn padding(&self) -> u32 {
        ["[PAD]", "<pad>"]
            .iter()
            .find_map(|token| self.inner.token_to_id(token))
            .unwrap_or(0)
    }

    fn input<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let text = match self.prompt.as_str() {
            "" => Cow::Borrowed(text),
            prompt => Cow::Owned([prompt, text].concat()),
        };
        if self.lower_case {
            Cow::Owned(text.to_lowercase())
        } else {
            text
        }
    }

    fn measure_prompt(&self) -> Result<usize, TokenizeError> {
        if self.prompt.is_empty() {
            return Ok(0);
        }
        let encoding = self.inner.encode_fast(self.input(""), true);
        let encoding = encoding.map_err(TokenizeError::Failed)?;
        let ends_special = encoding.get_special_tokens_mask().last() == Some(&1);
        Ok(encoding.len() - usize::from(ends_special))
    }
}
