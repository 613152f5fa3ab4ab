//! The beginnings of long texts.

/// The beginning of a text, of at most this many bytes.
pub(crate) fn shortened(text: &str, len_max: usize) -> &str {
    let ends = (0..=len_max.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character_boundary() {
        assert_eq!(shortened("short", 10), "short");
        assert_eq!(shortened("xéé", 4), "xé");
        assert_eq!(shortened("é", 1), "");
    }
}
