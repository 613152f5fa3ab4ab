//! Shortens texts for messages.

/// What a message shows of a text, in characters.
const CHARS_MAX: usize = 32;

/// The beginning of a text, for messages.
#[must_use]
pub fn excerpt(text: &str) -> &str {
    let end = text.char_indices().nth(CHARS_MAX);
    &text[..end.map_or(text.len(), |(end, _)| end)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_the_first_characters_of_a_text() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"é".repeat(33)), "é".repeat(32));
    }
}
