//! Queries of the logs, and their results.

use std::fmt::{self, Debug};

use serde::{Deserialize, Serialize};

use super::log_text::{LogLevel, level_of, plain};
use crate::shortened::shortened;

/// Longest text of an entry, in bytes; a longer one is cut.
const TEXT_LEN_MAX: usize = 16 << 10;

/// Which entries are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogQuery {
    /// Of this executor or this process alone; empty for all.
    pub process: String,
    /// Of this level and those above.
    pub level: Option<LogLevel>,
    /// With this text, in capitals or not.
    pub text: String,
    /// With the id of this request.
    pub request: String,
    /// Not before this time, in microseconds since 1970.
    pub since_us: Option<u64>,
}

/// A line of a log, or several that were written as one.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// When it was written, in microseconds since 1970.
    pub at_us: u64,
    /// The process that wrote it.
    pub process: String,
    /// Whether the supervisor wrote it, about the process.
    pub is_note: bool,
    /// Its level, if it has one.
    pub level: Option<LogLevel>,
    /// Its text, without colors and control characters. Lines end with `\n`.
    pub text: String,
}

/// The newest entries that a query asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogExcerpt {
    /// The oldest first.
    pub entries: Vec<LogEntry>,
    /// When the search began, in microseconds since 1970: the next one may ask for what was written since.
    pub searched_us: u64,
    /// All processes that have a log.
    pub processes: Vec<String>,
    /// Whether there may be older entries that the query asks for.
    pub is_cut: bool,
}

impl LogEntry {
    /// An entry with what a process wrote.
    #[must_use]
    pub fn new(at_us: u64, process: &str, is_note: bool, written: &str) -> Self {
        let mut text = plain(written);
        if text.len() > TEXT_LEN_MAX {
            text.truncate(shortened(&text, TEXT_LEN_MAX).len());
            text.push('…');
        }
        let level = match is_note {
            true => Some(LogLevel::Info),
            false => level_of(&text),
        };
        Self {
            at_us,
            process: process.to_owned(),
            is_note,
            level,
            text,
        }
    }
}

/// Without the text, which may be secret.
impl Debug for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_us, process, .. } = self;
        write!(f, "LogEntry({process} at {at_us})")
    }
}

impl LogQuery {
    /// Longest text of each kind, in bytes.
    pub const TEXT_LEN_MAX: usize = 256;

    /// Whether no part of it is too long.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let texts = [&self.process, &self.text, &self.request];
        texts.iter().all(|it| it.len() <= Self::TEXT_LEN_MAX)
    }

    /// Whether it asks for a process.
    #[must_use]
    pub fn wants_process(&self, process: &str) -> bool {
        let rest = process.strip_prefix(&*self.process);
        let is_of = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.process.is_empty() || is_of
    }

    /// Whether it asks for an entry.
    #[must_use]
    pub fn wants(&self, entry: &LogEntry) -> bool {
        self.since_us.is_none_or(|since| entry.at_us >= since)
            && (self.level.is_none() || entry.level >= self.level)
            && (self.request.is_empty() || names(&entry.text, &self.request))
            && (self.text.is_empty() || contains(&entry.text, &self.text))
    }
}

/// Whether a text contains another one, in capitals or not.
fn contains(text: &str, wanted: &str) -> bool {
    text.contains(wanted) || text.to_lowercase().contains(&wanted.to_lowercase())
}

/// Whether a text contains an id that is not part of a longer one. Text logs write quotes and backslashes of an id
/// escaped.
fn names(text: &str, id: &str) -> bool {
    let escaped = id.escape_debug().to_string();
    [id, escaped.as_str()].iter().any(|id| {
        text.match_indices(id).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + id.len()..].chars().next();
            let is_part = |it: char| it.is_alphanumeric() || it == '-' || it == '_';
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> LogEntry {
        LogEntry::new(1_000, "encoder/rep-0", false, text)
    }

    #[track_caller]
    fn check(query: &LogQuery, text: &str, expected: bool) {
        assert_eq!(query.wants(&entry(text)), expected, "{query:?} {text}");
    }

    #[test]
    fn an_executor_s_name_means_all_its_processes() {
        let query = |process: &str| LogQuery {
            process: process.to_owned(),
            ..LogQuery::default()
        };
        for (process, expected) in [
            ("", true),
            ("encoder", true),
            ("encoder/rep-0", true),
            ("encoder/rep", false),
            ("enc", false),
            ("gateway", false),
        ] {
            let found = query(process).wants_process("encoder/rep-0");
            assert_eq!(found, expected, "{process}");
        }
    }

    #[test]
    fn entries_are_wanted_by_level_text_and_time() {
        let level = |level| LogQuery {
            level: Some(level),
            ..LogQuery::default()
        };
        check(&level(LogLevel::Warn), "ERROR x", true);
        check(&level(LogLevel::Warn), "WARN x", true);
        check(&level(LogLevel::Warn), "INFO x", false);
        check(&level(LogLevel::Trace), "printed", false);
        let text = |text: &str| LogQuery {
            text: text.to_owned(),
            ..LogQuery::default()
        };
        check(&text("NOT TODAY"), "INFO not today", true);
        check(&text("tomorrow"), "INFO not today", false);
        let since = |since_us| LogQuery {
            since_us: Some(since_us),
            ..LogQuery::default()
        };
        check(&since(1_000), "x", true);
        check(&since(1_001), "x", false);
    }

    #[test]
    fn the_id_of_a_request_is_a_word() {
        let request = |id: &str| LogQuery {
            request: id.to_owned(),
            ..LogQuery::default()
        };
        check(&request("a-1"), "INFO request_id=\"a-1\" done", true);
        check(&request("a-1"), "a-1", true);
        check(&request("a-1"), "INFO request_id=\"a-12\" done", false);
        check(&request("a-1"), "INFO request_id=\"ba-1\", a-1.", true);
        check(&request("a\"1"), r#"INFO request_id="a\"1" done"#, true);
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = "ä".repeat(TEXT_LEN_MAX);
        let text = entry(&long).text;
        assert!(text.len() <= TEXT_LEN_MAX + '…'.len_utf8() && text.ends_with('…'));
    }

    #[test]
    fn debug_output_of_an_entry_omits_its_text() {
        assert!(!format!("{:?}", entry("secret")).contains("secret"));
    }
}
