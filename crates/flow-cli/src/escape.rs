//! Escapes control characters in text from elsewhere, so that documents, labels and logs cannot send commands to the
//! terminal: such as moving the cursor, setting the title of the window, or answering as if the user had typed.

use std::borrow::Cow;
use std::fmt::Write;

/// The start of a control sequence.
const CSI: &str = "\u{1b}[";

/// Ends all colors.
const RESET: &str = "\u{1b}[0m";

/// The text with control characters escaped, such as `\x1b`. Line ends are escaped, tabs are not.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    escape_if(text, is_unsafe, push_escaped)
}

/// Like [`escape`], but keeps line ends.
pub(crate) fn escape_lines(text: &str) -> Cow<'_, str> {
    let is_unsafe = |letter| letter != '\n' && is_unsafe(letter);
    escape_if(text, is_unsafe, push_escaped)
}

/// A JSON text with the control characters escaped that JSON allows in strings. The value stays the same.
pub(crate) fn escape_json(json: &str) -> Cow<'_, str> {
    // Those below U+0020 are outside of strings, and `\u` can name all others.
    let is_unsafe = |letter| letter > ' ' && is_unsafe(letter);
    let push = |text: &mut String, letter: char| {
        // Writing to a string does not fail.
        write!(text, "\\u{:04x}", u32::from(letter)).ok();
    };
    escape_if(json, is_unsafe, push)
}

/// Like [`escape`], but keeps sequences that only set colors (`ESC [ … m`) on a terminal. Colors end with the text.
pub(crate) fn escape_except_colors(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if !is_terminal || !text.contains(CSI) {
        return escape(text);
    }
    let mut safe = String::with_capacity(text.len() + RESET.len());
    let mut rest = text;
    let mut is_colored = false;
    while let Some(start) = rest.find(CSI) {
        safe.push_str(&escape(&rest[..start]));
        let sequence = color_sequence(&rest[start..]);
        let end = start + sequence.map_or(CSI.len(), str::len);
        match sequence {
            Some(colors) => {
                safe.push_str(colors);
                is_colored = colors != RESET && colors != "\u{1b}[m";
            }
            None => safe.push_str(&escape(CSI)),
        }
        rest = &rest[end..];
    }
    safe.push_str(&escape(rest));
    if is_colored {
        safe.push_str(RESET);
    }
    Cow::Owned(safe)
}

/// Like [`escape`], but without sequences that only set colors.
#[cfg(feature = "top")]
pub(crate) fn escape_without_colors(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(CSI) {
        plain.push_str(&rest[..start]);
        let colors = color_sequence(&rest[start..]).unwrap_or_default();
        let end = start + colors.len().max(CSI.len());
        if colors.is_empty() {
            plain.push_str(CSI);
        }
        rest = &rest[end..];
    }
    plain.push_str(rest);
    escape(&plain).into_owned()
}

/// The sequence at the start of a text that sets colors, if there is one.
fn color_sequence(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix(CSI)?;
    let is_parameter = |it: char| it.is_ascii_digit() || it == ';' || it == ':';
    let end = parameters.find(|it| !is_parameter(it))?;
    let is_color = parameters[end..].starts_with('m');
    is_color.then(|| &text[..CSI.len() + end + 1])
}

/// Whether terminals act on the character instead of showing it, or show others in a misleading order.
fn is_unsafe(letter: char) -> bool {
    let is_control = letter.is_control() && letter != '\t';
    let is_bidi = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_control || is_bidi
}

fn push_escaped(text: &mut String, letter: char) {
    // Writing to a string does not fail.
    match u8::try_from(letter) {
        Ok(byte) => write!(text, "\\x{byte:02x}").ok(),
        Err(_) => write!(text, "{}", letter.escape_unicode()).ok(),
    };
}

fn escape_if(
    text: &str,
    is_unsafe: impl Fn(char) -> bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    // Most texts are plain, and all bytes are quicker to look at than characters one by one.
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\t');
    let all_plain = text.bytes().fold(true, |all, byte| all & is_plain(byte));
    if all_plain || !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_unsafe(letter) {
            push(&mut safe, letter);
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "top")]
    #[test]
    fn colors_are_left_out_where_they_cannot_be_shown() {
        let check = |text: &str, expected: &str| {
            assert_eq!(escape_without_colors(text), expected);
        };
        check("plain", "plain");
        check("\u{1b}[31mred\u{1b}[0m\u{1b}[2J", "red\\x1b[2J");
        // What is left must not become a sequence.
        check("\u{1b}[\u{1b}[31m2J", "\\x1b[2J");
    }

    #[test]
    fn control_characters_are_escaped() {
        let check = |text: &str, expected: &str| assert_eq!(escape(text), expected);
        check("tschüß, 日本", "tschüß, 日本");
        check("a\tb", "a\tb");
        check("\u{1b}[31mred\u{1b}[0m", "\\x1b[31mred\\x1b[0m");
        check("\u{1b}]0;title\u{7}", "\\x1b]0;title\\x07");
        check("a\r\nb", "a\\x0d\\x0ab");
        check("\u{9b}2J\u{7f}", "\\x9b2J\\x7f");
        check("\u{202e}gnp.exe", "\\u{202e}gnp.exe");
        assert_eq!(escape_lines("a\nb\rc"), "a\nb\\x0dc");
    }

    #[test]
    fn colors_stay_on_a_terminal_and_end_with_the_line() {
        let check = |line: &str, on_terminal: &str, elsewhere: &str| {
            assert_eq!(escape_except_colors(line, true), on_terminal, "{line:?}");
            assert_eq!(escape_except_colors(line, false), elsewhere, "{line:?}");
        };
        check("plain\t✓", "plain\t✓", "plain\t✓");
        let red = "\u{1b}[31mred\u{1b}[0m";
        check(red, red, "\\x1b[31mred\\x1b[0m");
        check(
            "\u{1b}[1;38:5:9mred",
            "\u{1b}[1;38:5:9mred\u{1b}[0m",
            "\\x1b[1;38:5:9mred",
        );
        let same = |line: &str, expected: &str| check(line, expected, expected);
        same("\u{1b}[2J gone", "\\x1b[2J gone");
        same("\u{1b}[?1049h\u{1b}[6n", "\\x1b[?1049h\\x1b[6n");
        same("a\rb\u{8}\u{9b}31m", "a\\x0db\\x08\\x9b31m");
        same("\u{1b}[31", "\\x1b[31");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"text": "\u{9b}2J \u{1b}[0m \u{7f} \u{202e}x\n"});
        let escaped = escape_json(&value.to_string()).into_owned();
        assert!(!escaped.chars().any(is_unsafe), "{escaped}");
        let parsed: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(parsed, value);
    }
}
