//! The format of log lines. Pure.

use std::time::SystemTime;

use flow_launch::LogSource;
use flow_process::LogFormat as Format;

use super::interleave::LogLineEntry;
use crate::cmd::flows::json_line::json_line;
use crate::escape::{escape_except_colors, escape_json};
use crate::layout::{width, wrap_after};
use crate::output::{Colour, Painter};

/// Separates the name of a process from its line.
const MARK: &str = " │ ";

/// The format of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineFormat {
    pub(super) format: Format,
    pub(super) painter: Painter,
    /// Whether lines begin with their time.
    pub(super) timestamps: bool,
    /// Width of the terminal, if there is one.
    pub(super) columns: Option<usize>,
}

impl LineFormat {
    /// The lines of entries. If there are several processes, a line begins with the name of its process.
    pub(super) fn lines(&self, entries: Vec<LogLineEntry>, names: &[&str]) -> Vec<String> {
        let column = match names {
            [] | [_] => None,
            names => names.iter().map(|name| width(name)).max(),
        };
        let line = |entry: LogLineEntry| match self.format {
            Format::Text => self.line(&entry, column),
            Format::Json => json(&entry),
        };
        entries.into_iter().map(line).collect()
    }

    fn line(&self, entry: &LogLineEntry, column: Option<usize>) -> String {
        let LogLineEntry { name, text, .. } = entry;
        let painter = self.painter;
        let time = entry.origin.filter(|_| self.timestamps);
        let time = time.map(|(time, _)| timestamp(time));
        let text = escape_except_colors(text, painter.is_on());
        let (text, style) = match entry.origin {
            Some((_, LogSource::Flow)) => (format!("── {text} ──"), Some(Colour::Bold)),
            _ => (text.into_owned(), None),
        };
        let taken = column.map_or(0, |column| column + width(MARK));
        let taken = taken + time.as_ref().map_or(0, |time| width(time) + 1);
        let lines = wrap_after(taken, &text, self.columns).into_iter();
        let lines = lines.enumerate().map(|(number, piece)| {
            let piece = style.map_or(piece.clone(), |style| painter.paint(style, &piece));
            let (name, time) = match number {
                0 => (&**name, time.clone()),
                _ => ("", time.as_ref().map(|time| " ".repeat(width(time)))),
            };
            let time = time.map(|time| painter.paint(Colour::Dim, &time) + " ");
            self.name(name, column) + &time.unwrap_or_default() + &piece
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The name of a process in its column.
    fn name(&self, name: &str, column: Option<usize>) -> String {
        let Some(column) = column else {
            return String::new();
        };
        let padding = " ".repeat(column.saturating_sub(width(name)));
        let name = format!("{name}{padding}{}", MARK.trim_end());
        self.painter.paint(Colour::Cyan, &name) + " "
    }
}

/// A line as a JSON object. A line that is a JSON object keeps its fields.
fn json(entry: &LogLineEntry) -> String {
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
        let look = LineFormat {
            format,
            painter: Painter::off(),
            timestamps,
            columns: None,
        };
        let entries = LogLineEntry::all("a", LINES.map(str::to_owned).to_vec());
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
    fn no_line_is_wider_than_the_terminal_and_no_word_is_lost() {
        let text =
            "2026-11-22T03:16:05.000001Z stderr a line of a log that has more words than fit";
        let note =
            "2026-11-22T03:16:05.000001Z flow a/rep-0@7 ready and listening on 127.0.0.1:41233";
        for (columns, timestamps) in [(40, false), (80, true)] {
            let look = |columns| LineFormat {
                format: Format::Text,
                painter: Painter::off(),
                timestamps,
                columns,
            };
            for line in [text, note] {
                let shown = |columns| {
                    let entries = LogLineEntry::all("a", vec![line.to_owned()]);
                    look(columns).lines(entries, &["a", "gateway"]).remove(0)
                };
                let wrapped = shown(Some(columns));
                assert!(wrapped.lines().count() > 1, "{wrapped}");
                for line in wrapped.lines() {
                    assert!(width(line) <= columns, "{line:?} in {columns}");
                    assert!(line.contains(" │ "), "{line:?}");
                }
                let words = |text: &str| text.replace(['│', ' ', '\n'], "");
                assert_eq!(words(&wrapped), words(&shown(None)));
            }
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let look = |format| LineFormat {
            format,
            painter: Painter::off(),
            timestamps: false,
            columns: None,
        };
        let entries = || LogLineEntry::all("a", vec!["\u{1b}[2J\u{9b}A x".to_owned()]);
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
