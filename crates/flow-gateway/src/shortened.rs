//! The beginnings of long texts.

use std::fmt;

/// The beginning of a text, of at most this many bytes.
pub(crate) fn shortened(text: &str, len_max: usize) -> &str {
    let ends = (0..=len_max.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The beginning of what something displays, of at most this many bytes. The rest is never in memory.
pub(crate) fn displayed(it: &impl fmt::Display, len_max: usize) -> String {
    let mut beginning = Beginning {
        text: String::new(),
        len_max,
    };
    // It fails where the rest is left out.
    let _is_cut = fmt::write(&mut beginning, format_args!("{it}")).is_err();
    beginning.text
}

struct Beginning {
    text: String,
    len_max: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let fits = shortened(part, self.len_max - self.text.len());
        self.text.push_str(fits);
        match fits.len() == part.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
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

    #[test]
    fn what_is_displayed_is_cut_as_well() {
        assert_eq!(displayed(&"short", 10), "short");
        assert_eq!(displayed(&format_args!("{}{}", "long", "er"), 5), "longe");
    }
}
