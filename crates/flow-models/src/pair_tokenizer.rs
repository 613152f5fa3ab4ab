//! Turns texts and pairs of texts into token ids, for models with a classification head.
//!
//! The texts of a pair are tokenized apart, and the special tokens are added when they are joined. So a query is tokenized once for all of its
//! texts. They are truncated before they are joined: the library would also join all parts that it cuts off, each of the first text
//! with each of the second.

use std::path::Path;

use tokenizers::{Encoding, PostProcessor};

use crate::tokenizer::TokenizerError;
use crate::tokens::PairTokens;
use crate::truncation::{TruncationDirection, readable};

/// Turns texts and pairs of texts into token ids, with the `tokenizers` library of Hugging Face.
#[derive(Debug)]
pub(crate) struct PairTokenizer {
    inner: tokenizers::Tokenizer,
    max_length: usize,
    /// Maximum tokens of a text alone, without special tokens.
    alone_max: usize,
    /// Maximum tokens of both texts of a pair, without special tokens.
    pair_max: usize,
}

/// The tokens of one text, without special tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextTokens {
    /// At most as many as a text alone, or one of a pair, can have.
    tokens: Encoding,
    /// The number of tokens before truncation.
    count: usize,
    /// Where tokens are cut off.
    direction: TruncationDirection,
}

impl PairTokenizer {
    /// Loads a tokenizer from a `tokenizer.json`. `max_length` is the maximum number of tokens of a pair, with special tokens.
    ///
    /// # Errors
    ///
    /// If the file is not a tokenizer, or `max_length` leaves no token for one of the texts.
    pub(crate) fn load(path: &Path, max_length: usize) -> Result<Self, TokenizerError> {
        let loaded = tokenizers::Tokenizer::from_file(path);
        let mut inner = loaded.map_err(|source| TokenizerError::Load {
            path: path.to_owned(),
            source,
        })?;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(TokenizerError::Tokenize)?;
        let processor = inner.get_post_processor();
        let special = |is_pair| processor.map_or(0, |it| it.added_tokens(is_pair));
        let (of_text, special) = (special(false), special(true));
        if max_length < special + 2 {
            return Err(TokenizerError::PairMaxLength {
                requested: max_length,
                special,
            });
        }
        Ok(Self {
            inner,
            max_length,
            alone_max: max_length.saturating_sub(of_text),
            pair_max: max_length - special,
        })
    }

    /// The tokens of one text.
    ///
    /// # Errors
    ///
    /// If it cannot be tokenized.
    pub(crate) fn text(
        &self,
        text: &str,
        direction: TruncationDirection,
    ) -> Result<TextTokens, TokenizerError> {
        let text = readable(text, self.max_length, direction);
        let tokens = self.inner.encode_fast(text, false);
        let tokens = tokens.map_err(TokenizerError::Tokenize)?;
        let count = tokens.len();
        Ok(TextTokens {
            tokens: truncated(tokens, self.alone_max.max(self.pair_max), direction),
            count,
            direction,
        })
    }

    /// The token ids of a text alone, with special tokens. If it has too many, it loses its last or first ones.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub(crate) fn alone(&self, text: TextTokens) -> Result<PairTokens, TokenizerError> {
        let tokens = truncated(text.tokens, self.alone_max, text.direction);
        let tokens = self.inner.post_process(tokens, None, true);
        let ids = tokens.map_err(TokenizerError::Tokenize)?.get_ids().to_vec();
        Ok(PairTokens {
            second_start: ids.len(),
            is_truncated: text.count > self.alone_max,
            ids,
        })
    }

    /// The token ids of a pair, with special tokens. If it has too many, the longer text loses its last or first ones.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub(crate) fn join(
        &self,
        first: &TextTokens,
        second: TextTokens,
    ) -> Result<PairTokens, TokenizerError> {
        let counts = (first.count, second.count);
        let kept = kept(counts, self.pair_max);
        let pair = self.inner.post_process(
            truncated(first.tokens.clone(), kept.0, first.direction),
            Some(truncated(second.tokens, kept.1, second.direction)),
            true,
        );
        let pair = pair.map_err(TokenizerError::Tokenize)?;
        let ids = pair.get_ids().to_vec();
        let second_start = pair.get_type_ids().iter().position(|&it| it == 1);
        Ok(PairTokens {
            second_start: second_start.unwrap_or(ids.len()),
            is_truncated: kept != counts,
            ids,
        })
    }
}

/// The first or last `max` tokens, without the others, which the library keeps.
fn truncated(mut tokens: Encoding, max: usize, direction: TruncationDirection) -> Encoding {
    tokens.truncate(max, 0, direction.into());
    tokens.take_overflowing();
    tokens
}

/// How many tokens of each text are kept, as with the strategy `longest_first` of the `tokenizers` library: the longer text is
/// truncated, and if that is not enough, both have the same length.
fn kept((first, second): (usize, usize), max: usize) -> (usize, usize) {
    if first + second <= max {
        return (first, second);
    }
    let shorter = first.min(second);
    let (shorter, longer) = match max.checked_sub(shorter) {
        Some(rest) if rest >= shorter => (shorter, rest),
        _ => (max / 2, max / 2 + max % 2),
    };
    match first > second {
        true => (longer, shorter),
        false => (shorter, longer),
    }
}

#[cfg(test)]
mod tests {
    use tokenizers::utils::truncation::{TruncationParams, truncate_encodings};

    use super::*;

    #[test]
    fn the_longer_text_is_truncated_as_the_library_does_it() {
        let tokens = |count: usize| {
            let ids = vec![0; count];
            Encoding::new(
                ids.clone(),
                ids.clone(),
                vec![String::new(); count],
                vec![None; count],
                vec![(0, 0); count],
                ids.clone(),
                ids,
                Vec::new(),
                Default::default(),
            )
        };
        for max in 2..9 {
            let params = TruncationParams {
                max_length: max,
                ..TruncationParams::default()
            };
            for (first, second) in (0..14).flat_map(|first| (0..14).map(move |it| (first, it))) {
                let library = truncate_encodings(tokens(first), Some(tokens(second)), &params);
                let (one, two) = library.unwrap();
                let expected = (one.len(), two.unwrap().len());
                assert_eq!(
                    kept((first, second), max),
                    expected,
                    "{first} {second} {max}"
                );
            }
        }
    }
}
