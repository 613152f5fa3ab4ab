//! The format of log lines. Pure.

use std::time::SystemTime;

use flow_launch::LogSource;
use flow_process::LogFormat as Format;

use super::interleave::Entry;
use crate::cmd::flows::json_line::json_line;
use crate::escape::{escape_except_colors, escape_json};
use crate::layout::width;
use crate::output::{Colour, Painter};

/// The format of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) format: Format,
    pub(super) painter: Painter,
    /// Whether lines begin with their time.
    pub(super) timestamps: bool,
}

impl Look {
    /// The lines of entries. If there are several processes, a line begins with the name of its process.
    pub(super) fn lines(&self, entries: Vec<Entry>, names: &[&str]) -> Vec<String> {
        let column = match names {
            [] | [_] => None,
            names => names.iter().map(|name| width(name)).max(),
        };
        let line = |entry: Entry| match self.format {
            Format::Text => self.line(&entry, column),
            Format::Json => json(&entry),
        };
        entries.into_iter().map(line).collect()
    }

    fn line(&self, entry: &Entry, column: Option<usize>) -> String {
        let Entry { name, text, .. } = entry;
        let painter = self.painter;
        let name = column.map(|column| {
            let padding = " ".repeat(column.saturating_sub(width(name)));
            painter.paint(Colour::Cyan, &format!("{name}{padding} │"))
        });
        let time = entry.origin.filter(|_| self.timestamps);
        let time = time.map(|(time, _)| painter.paint(Colour::Dim, &timestamp(time)));
        let text = escape_except_colors(text, painter.is_on());
        let text = match entry.origin {
            Some((_, LogSource::Flow)) => painter.paint(Colour::Bold, &format!("── {text} ──")),
            _ => text.into_owned(),
        };
        let parts: Vec<String> = name.into_iter().chain(time).chain([text]).collect();
        parts.join(" ")
    }
}

/// A line as a JSON object. A line that is a JSON object keeps its fields.
fn json(entry: &Entry) -> String {
    let mut fields = json_line(&entry.name, &entry.text);
    if let Some((time, source)) = entry.origin {
        fields.insert("time".to_owned(), timestamp(time).into());
        fields.insert("source".to_owned(), source.as_str().into());
    }
    escape_json(&serde_json::Value::Object(fields).to_string()).into_owned()
}

fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 3] = [
        "2026-11-22T03:16:05.000001Z flow starting",
        "2026-11-22T03:16:06.000002Z stderr loading",
        r#"2026-11-22T03:16:07.000003Z stdout {"level":"INFO"}"#,
    ];

    fn check(format: Format, timestamps: bool, names: &[&str], expected: [&str; 3]) {
        let look = Look {
            format,
            painter: Painter::off(),
            timestamps,
        };
        let entries = Entry::all("a", LINES.map(str::to_owned).to_vec());
        assert_eq!(look.lines(entries, names), expected);
    }

    #[test]
    fn notes_of_flow_are_marked() {
        let expected = ["── starting ──", "loading", r#"{"level":"INFO"}"#];
        check(Format::Text, false, &["a"], expected);
    }

    #[test]
    fn lines_of_several_processes_begin_with_their_names_in_a_column() {
        let expected = [
            "a       │ ── starting ──",
            "a       │ loading",
            r#"a       │ {"level":"INFO"}"#,
        ];
        check(Format::Text, false, &["a", "gateway"], expected);
    }

    #[test]
    fn timestamps_are_shown_on_request() {
        let expected = [
            "2026-11-22T03:16:05.000001Z ── starting ──",
            "2026-11-22T03:16:06.000002Z loading",
            r#"2026-11-22T03:16:07.000003Z {"level":"INFO"}"#,
        ];
        check(Format::Text, true, &["a"], expected);
    }

    #[test]
    fn control_characters_are_escaped() {
        let look = |format| Look {
            format,
            painter: Painter::off(),
            timestamps: false,
        };
        let entries = || Entry::all("a", vec!["\u{1b}[2J\u{9b}A x".to_owned()]);
        let text = look(Format::Text).lines(entries(), &["a"]);
        assert_eq!(text, ["\\x1b[2J\\x9bA x"]);
        let json = look(Format::Json).lines(entries(), &["a"]);
        assert_eq!(json, [r#"{"message":"\u001b[2J\u009bA x","process":"a"}"#]);
    }

    #[test]
    fn as_json_each_line_is_an_object() {
        let expected = [
            r#"{"message":"starting","process":"a","time":"2026-11-22T03:16:05.000001Z","source":"flow"}"#,
            r#"{"message":"loading","process":"a","time":"2026-11-22T03:16:06.000002Z","source":"stderr"}"#,
            r#"{"level":"INFO","process":"a","time":"2026-11-22T03:16:07.000003Z","source":"stdout"}"#,
        ];
        check(Format::Json, false, &["a", "gateway"], expected);
    }
}
