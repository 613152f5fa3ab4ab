//! The text of a log line for people, and its level. Pure.
//!
//! Executors may be any programs, and what they log may come from clients. Colors are removed, and other control
//! characters and those that change the direction of text are shown as text, such as `\x1b`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// The level of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Each step.
    Trace,
    /// Details for debugging.
    Debug,
    /// What happens.
    Info,
    /// Something unexpected.
    Warn,
    /// A failure that needs attention.
    Error,
}

/// The start of a sequence that sets colors and the like.
const SEQUENCE: &str = "\u{1b}[";

/// Words at the beginning of a line among which its level is: a date, a time, a process and a thread come before it at most.
const WORDS_MAX: usize = 8;

/// The words for levels in the logs of Rust and Python.
const LEVELS: [(&str, LogLevel); 9] = [
    ("TRACE", LogLevel::Trace),
    ("DEBUG", LogLevel::Debug),
    ("INFO", LogLevel::Info),
    ("WARN", LogLevel::Warn),
    ("WARNING", LogLevel::Warn),
    ("ERROR", LogLevel::Error),
    ("CRITICAL", LogLevel::Error),
    ("FATAL", LogLevel::Error),
    // Python prints it for an exception that nothing catches.
    ("Traceback", LogLevel::Error),
];

/// The text without colors and control characters. Line ends and tabs stay.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(SEQUENCE) {
        push_visible(&mut plain, &rest[..at]);
        let after = &rest[at + SEQUENCE.len()..];
        let end = after.find(|it: char| !matches!(it, '0'..='9' | ';' | ':'));
        rest = match end {
            Some(end) if after[end..].starts_with('m') => &after[end + 1..],
            _ => {
                push_visible(&mut plain, SEQUENCE);
                after
            }
        };
    }
    push_visible(&mut plain, rest);
    plain
}

fn push_visible(plain: &mut String, text: &str) {
    for letter in text.chars() {
        let is_bidi = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let is_hidden = letter.is_control() && !matches!(letter, '\n' | '\t');
        // Writing to a string does not fail.
        match (u8::try_from(letter), is_bidi || is_hidden) {
            (_, false) => plain.push(letter),
            (Ok(byte), true) => write!(plain, "\\x{byte:02x}").unwrap_or_default(),
            (Err(_), true) => plain.extend(letter.escape_unicode()),
        }
    }
}

/// The level that a line names, as text or as JSON.
pub(super) fn level_of(line: &str) -> Option<LogLevel> {
    if line.starts_with('{')
        && let Ok(fields) = serde_json::from_str::<serde_json::Value>(line)
    {
        let level = fields.get("level").or(fields.get("levelname"));
        return named(&level?.as_str()?.to_ascii_uppercase());
    }
    let is_mark = |it: char| it.is_whitespace() || matches!(it, ':' | '[' | ']' | '|' | '(' | ')');
    let words = line.split(is_mark).filter(|it| !it.is_empty());
    words.take(WORDS_MAX).find_map(named)
}

fn named(word: &str) -> Option<LogLevel> {
    let found = LEVELS.iter().find(|(name, _)| *name == word);
    found.map(|(_, level)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_removed_and_control_characters_are_shown() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("tschüß\t日本\nnext", "tschüß\t日本\nnext");
        check(
            "\u{1b}[2m2026\u{1b}[0m \u{1b}[1;33mWARN\u{1b}[0m x",
            "2026 WARN x",
        );
        check("\u{1b}[2J\u{1b}[31", "\\x1b[2J\\x1b[31");
        check("a\u{1b}]0;title\u{7}\rb", "a\\x1b]0;title\\x07\\x0db");
        check("\u{9b}2J\u{7f}\u{0}", "\\x9b2J\\x7f\\x00");
        check("\u{202e}gnp.exe", "\\u{202e}gnp.exe");
        check("<img src=x>", "<img src=x>");
    }

    #[test]
    fn a_level_is_a_word_in_capitals_near_the_beginning() {
        use LogLevel::{Debug, Error, Info, Warn};
        let check = |line: &str, expected: Option<LogLevel>| {
            assert_eq!(level_of(line), expected, "{line}");
        };
        check(
            "2026-11-22T03:16:05.1Z  INFO flow_gateway: an ERROR",
            Some(Info),
        );
        check("WARNINGS were printed", None);
        check("DEBUG  executor0/rep-0@28 started", Some(Debug));
        check("2026-11-22 03:16:05,123 - root - WARNING - x", Some(Warn));
        check("ERROR:root:message", Some(Error));
        check("[CRITICAL] x", Some(Error));
        check("Traceback (most recent call last):", Some(Error));
        check(r#"{"level":"warn","message":"ERROR"}"#, Some(Warn));
        check(r#"{"levelname":"ERROR"}"#, Some(Error));
        check(r#"{"message":"ERROR"}"#, None);
        check("one two three four five six seven eight ERROR", None);
        check("", None);
    }
}
