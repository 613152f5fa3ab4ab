//! Texts of a picture: how wide they are, and how they are cut and escaped.

/// What a letter takes, in parts of the font's size. Wide fonts are taken as the measure, so that a text
/// fits its box with any.
fn letter(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.36,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | '/' => 0.43,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.98,
        'A'..='Z' | '&' => 0.74,
        '0'..='9' | 'a'..='z' | '_' => 0.63,
        letter if letter.is_ascii() => 0.7,
        _ => 1.0,
    }
}

/// Width of a text, estimated.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(letter).sum::<f64>() * size
}

/// At most this many letters, of which the last shows that the text was cut.
pub(super) fn cut(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.to_owned();
    }
    let kept = text.chars().take(letters_max - 1);
    kept.chain(['…']).collect()
}

/// The text as XML takes it; control characters, which it does not, become blanks.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(' ');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}
