//! Which part of a long text a model reads.

use serde::Deserialize;

/// Words of a text that are tokenized, for each token that the model reads. A word has one token at least, unless it
/// consists of characters that the tokenizer drops.
const WORDS_PER_TOKEN: usize = 2;

/// Bytes of a text that are tokenized, for each token that the model reads. English has four to five.
const BYTES_PER_TOKEN: usize = 512;

/// The side at which a text is cut if it has more tokens than the model reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TruncationDirection {
    /// The end is cut off.
    #[default]
    Right,
    /// The beginning is cut off.
    Left,
}

impl From<TruncationDirection> for tokenizers::TruncationDirection {
    fn from(direction: TruncationDirection) -> Self {
        match direction {
            TruncationDirection::Right => Self::Right,
            TruncationDirection::Left => Self::Left,
        }
    }
}

/// The part of a text that a model can read with this many tokens. The rest would be tokenized and then cut off, and a
/// long text would keep the texts of others waiting.
pub(crate) fn readable(text: &str, max_length: usize, direction: TruncationDirection) -> &str {
    // A token has one byte at least.
    if text.len() <= max_length {
        return text;
    }
    let bytes = max_length.saturating_mul(BYTES_PER_TOKEN);
    let words = max_length.saturating_mul(WORDS_PER_TOKEN);
    match direction {
        TruncationDirection::Right => beginning(text, bytes, words),
        TruncationDirection::Left => end(text, bytes, words),
    }
}

/// The first bytes and words of a text.
fn beginning(text: &str, bytes: usize, words: usize) -> &str {
    let mut stop = bytes.min(text.len());
    while !text.is_char_boundary(stop) {
        stop -= 1;
    }
    let text = &text[..stop];
    match text.split_whitespace().nth(words) {
        Some(next) => &text[..start(next, text)],
        None => text,
    }
}

/// The last bytes and words of a text.
fn end(text: &str, bytes: usize, words: usize) -> &str {
    let mut begin = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let text = &text[begin..];
    match text.split_whitespace().rev().nth(words) {
        Some(before) => &text[start(before, text) + before.len()..],
        None => text,
    }
}

/// The place of a part in its text.
fn start(part: &str, text: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_model_stops_reading() {
        let readable = |text, max| readable(text, max, TruncationDirection::Right);
        assert_eq!(readable("a b c d e f", 2), "a b c d ");
        assert_eq!(readable("a b c", 2), "a b c");
        assert_eq!(readable("ab", 2), "ab");
        let long = "é".repeat(10_000);
        assert_eq!(readable(&long, 3).len(), 3 * BYTES_PER_TOKEN);
        let odd = format!("x{long}");
        assert_eq!(readable(&odd, 3).len(), 3 * BYTES_PER_TOKEN - 1);
        assert_eq!(readable(&long, usize::MAX), long);
    }

    #[test]
    fn a_text_is_cut_where_a_model_begins_to_read() {
        let readable = |text, max| readable(text, max, TruncationDirection::Left);
        assert_eq!(readable("a b c d e f", 2), " c d e f");
        assert_eq!(readable("a b c", 2), "a b c");
        assert_eq!(readable("ab", 2), "ab");
        let long = "é".repeat(10_000);
        assert_eq!(readable(&long, 3).len(), 3 * BYTES_PER_TOKEN);
        let odd = format!("{long}x");
        assert_eq!(readable(&odd, 3).len(), 3 * BYTES_PER_TOKEN - 1);
        assert_eq!(readable(&long, usize::MAX), long);
    }
}
