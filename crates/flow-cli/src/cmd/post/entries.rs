//! Documents of an input, one after another, each with its place.

use std::io::{self, BufRead};

use flow_core::{BadDocument, Document, Flavour};
use serde_json::Value;

use super::lines::{BadLine, Line, Lines};

/// How a line tells of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A JSON object is a document, a JSON string a text; blank lines, and what executors returned besides
    /// documents in the output of another run, are passed over.
    Json,
    /// The line is the text, also an empty one: line 7 of the output answers line 7 of the input.
    Plain,
}

/// Where documents come from.
pub(super) struct Source {
    origin: Origin,
    flavour: Flavour,
    len: Option<u64>,
}

enum Origin {
    Texts(std::iter::Enumerate<std::vec::IntoIter<String>>),
    Lines {
        lines: Lines<Box<dyn BufRead + Send>>,
        form: Form,
    },
}

/// A document's place in the input, and the document or why there is none.
#[derive(Debug)]
pub(super) struct Entry {
    /// The line's number, or the text's; the first is 1.
    pub(super) number: u64,
    /// Bytes of the input up to here.
    pub(super) end: u64,
    pub(super) document: Result<Document, BadEntry>,
}

/// Why a line tells of no document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadEntry {
    #[error(transparent)]
    Line(BadLine),
    #[error(
        "is not valid JSON: {message} at column {column}; for lines of plain text use `--lines`"
    )]
    Json { message: String, column: usize },
    #[error("is not a document: {0}")]
    Document(BadDocument),
}

impl Source {
    pub(super) fn texts(texts: Vec<String>, flavour: Flavour) -> Self {
        Self {
            origin: Origin::Texts(texts.into_iter().enumerate()),
            flavour,
            len: None,
        }
    }

    pub(super) fn lines(input: Box<dyn BufRead + Send>, form: Form, flavour: Flavour) -> Self {
        Self {
            origin: Origin::Lines {
                lines: Lines::new(input),
                form,
            },
            flavour,
            len: None,
        }
    }

    /// The documents are sent in this format.
    pub(super) fn with_flavour(self, flavour: Flavour) -> Self {
        Self { flavour, ..self }
    }

    /// The input is this long.
    pub(super) fn with_len(self, len: Option<u64>) -> Self {
        Self { len, ..self }
    }

    /// How long the input is, if that is known.
    pub(super) fn len(&self) -> Option<u64> {
        self.len
    }

    /// No documents were ever meant: the request itself is all there is to send.
    pub(super) fn is_without_documents(&self) -> bool {
        matches!(&self.origin, Origin::Texts(texts) if texts.len() == 0)
    }

    /// The next entry; none at the end of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        match &mut self.origin {
            Origin::Texts(texts) => Ok(texts.next().map(|(at, text)| Entry {
                number: at as u64 + 1,
                end: 0,
                document: Ok(from_text(&text, self.flavour)),
            })),
            Origin::Lines { lines, form } => {
                while let Some(line) = lines.next()? {
                    if *form == Form::Plain || !(is_blank(&line) || is_results(&line)) {
                        return Ok(Some(from_line(line, *form, self.flavour)));
                    }
                }
                Ok(None)
            }
        }
    }
}

fn is_blank(line: &Line) -> bool {
    line.text.as_ref().is_ok_and(|text| text.trim().is_empty())
}

/// A line as `sink.rs` writes it for what executors return besides documents.
fn is_results(line: &Line) -> bool {
    let begins = |text: &String| text.starts_with("{\"__results__\":");
    line.text.as_ref().is_ok_and(begins)
}

fn from_line(line: Line, form: Form, flavour: Flavour) -> Entry {
    let document = line
        .text
        .map_err(BadEntry::Line)
        .and_then(|text| match form {
            Form::Plain => Ok(from_text(&text, flavour)),
            Form::Json => from_json(&text, flavour),
        });
    Entry {
        number: line.number,
        end: line.end,
        document,
    }
}

fn from_json(text: &str, flavour: Flavour) -> Result<Document, BadEntry> {
    match serde_json::from_str(text).map_err(|error| not_json(&error))? {
        Value::String(text) => Ok(from_text(&text, flavour)),
        value => Document::from_json(flavour, &value).map_err(BadEntry::Document),
    }
}

/// serde counts lines within the text, which is always one line of the input.
fn not_json(error: &serde_json::Error) -> BadEntry {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
    BadEntry::Json {
        message,
        column: error.column(),
    }
}

fn from_text(text: &str, flavour: Flavour) -> Document {
    let mut document = Document::of_flavour(flavour);
    document.set_text(text);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(input: &'static str, form: Form) -> Vec<Entry> {
        let mut source = Source::lines(Box::new(input.as_bytes()), form, Flavour::V1);
        std::iter::from_fn(|| source.next().unwrap()).collect()
    }

    fn check(input: &'static str, form: Form, wanted: &[(u64, &str)]) {
        let found: Vec<(u64, String)> = entries(input, form)
            .into_iter()
            .map(|entry| (entry.number, entry.document.unwrap().text()))
            .collect();
        let wanted: Vec<_> = wanted
            .iter()
            .map(|&(at, text)| (at, text.to_owned()))
            .collect();
        assert_eq!(found, wanted, "{input:?}");
    }

    fn check_bad(input: &'static str, wanted: &str) {
        let error = entries(input, Form::Json).remove(0).document.unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }

    #[test]
    fn objects_are_documents_and_strings_are_texts() {
        check(
            "{\"text\": \"a\"}\n\"b\"\n",
            Form::Json,
            &[(1, "a"), (2, "b")],
        );
    }

    #[test]
    fn blank_lines_are_passed_over_in_json_and_counted() {
        check("\"a\"\n\n  \n\"b\"", Form::Json, &[(1, "a"), (4, "b")]);
    }

    #[test]
    fn results_in_the_output_of_another_run_are_passed_over() {
        let input = "\"a\"\n{\"__results__\":{\"index\":{\"count\":3}}}\n\"b\"";
        check(input, Form::Json, &[(1, "a"), (3, "b")]);
    }

    #[test]
    fn every_plain_line_is_a_text() {
        check("a\n\n{}\n", Form::Plain, &[(1, "a"), (2, ""), (3, "{}")]);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_told() {
        check_bad(
            "{\"text\": oops}",
            "is not valid JSON: expected value at column 10; for lines of plain text use `--lines`",
        );
        check_bad(
            "[1]",
            "is not a document: a document is a JSON object, not a list",
        );
        check_bad(
            "{\"text\": 5}",
            "is not a document: `text` must be a text, not a number",
        );
    }

    #[test]
    fn texts_are_numbered_from_one() {
        let mut source = Source::texts(vec!["a".to_owned(), "b".to_owned()], Flavour::V2);
        assert!(!source.is_without_documents());
        let first = source.next().unwrap().unwrap();
        assert_eq!(
            (first.number, first.document.unwrap().flavour()),
            (1, Flavour::V2)
        );
        assert!(Source::texts(Vec::new(), Flavour::V1).is_without_documents());
    }
}
