//! How lines of logs look. Pure.

use std::time::SystemTime;

use flow_executor::Log as Format;
use flow_launch::LogSource;

use super::interleave::Entry;
use crate::layout::width;
use crate::log::object;
use crate::output::{Colour, Painter};

/// How lines are to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) format: Format,
    pub(super) painter: Painter,
    /// Lines begin with their time.
    pub(super) timestamps: bool,
}

impl Look {
    /// Entries as lines; where there are several processes, each line begins with the name of its own.
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
        let time = time.map(|(time, _)| painter.paint(Colour::Dim, &written(time)));
        let text = match entry.origin {
            Some((_, LogSource::Flow)) => painter.paint(Colour::Bold, &format!("── {text} ──")),
            _ => text.clone(),
        };
        let parts: Vec<String> = name.into_iter().chain(time).chain([text]).collect();
        parts.join(" ")
    }
}

/// A line as a JSON object: its own, if it is one.
fn json(entry: &Entry) -> String {
    let mut fields = object(&entry.name, &entry.text);
    if let Some((time, source)) = entry.origin {
        fields.insert("time".to_owned(), written(time).into());
        fields.insert("source".to_owned(), source.as_str().into());
    }
    serde_json::Value::Object(fields).to_string()
}

fn written(time: SystemTime) -> String {
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
    fn notes_about_a_process_are_told_from_its_lines() {
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
    fn times_are_shown_when_asked_for() {
        let expected = [
            "2026-11-22T03:16:05.000001Z ── starting ──",
            "2026-11-22T03:16:06.000002Z loading",
            r#"2026-11-22T03:16:07.000003Z {"level":"INFO"}"#,
        ];
        check(Format::Text, true, &["a"], expected);
    }

    #[test]
    fn programs_get_an_object_for_each_line() {
        let expected = [
            r#"{"message":"starting","process":"a","time":"2026-11-22T03:16:05.000001Z","source":"flow"}"#,
            r#"{"message":"loading","process":"a","time":"2026-11-22T03:16:06.000002Z","source":"stderr"}"#,
            r#"{"level":"INFO","process":"a","time":"2026-11-22T03:16:07.000003Z","source":"stdout"}"#,
        ];
        check(Format::Json, false, &["a", "gateway"], expected);
    }
}
