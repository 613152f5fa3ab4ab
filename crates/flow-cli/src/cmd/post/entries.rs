//! The documents of an input, each with its position.

use std::io::{self, BufRead};

use flow_core::{BadDocument, DocArrayVersion, Document};
use serde_json::Value;

use super::lines::{BadLine, Line, Lines};

/// How lines represent documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputFormat {
    /// A JSON object is a document, a JSON string is a text. Blank lines are skipped, and so are the results of executors in
    /// the output of another run.
    Json,
    /// The line is the text, even if it is empty: line 7 of the output is the reply to line 7 of the input.
    Plain,
}

/// An input.
pub(crate) struct InputSource {
    input: Input,
    version: DocArrayVersion,
    len: Option<u64>,
}

enum Input {
    Texts(std::iter::Enumerate<std::vec::IntoIter<String>>),
    Lines {
        lines: Lines<Box<dyn BufRead + Send>>,
        form: InputFormat,
    },
}

/// An entry of the input: a line or a text.
#[derive(Debug)]
pub(crate) struct InputEntry {
    /// Its number; the first is 1.
    pub(crate) number: u64,
    /// Bytes of the input up to its end.
    pub(super) end: u64,
    pub(crate) document: Result<Document, BadEntry>,
}

/// A line is not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadEntry {
    #[error(transparent)]
    Line(BadLine),
    #[error(
        "is not valid JSON: {message} at column {column}; for lines of plain text use `--lines`"
    )]
    Json { message: String, column: usize },
    #[error("is not a document: {0}")]
    Document(BadDocument),
}

impl InputSource {
    pub(super) fn texts(texts: Vec<String>, version: DocArrayVersion) -> Self {
        Self {
            input: Input::Texts(texts.into_iter().enumerate()),
            version,
            len: None,
        }
    }

    /// Documents, one on each line, as JSON.
    pub(crate) fn json_lines(input: Box<dyn BufRead + Send>, version: DocArrayVersion) -> Self {
        Self::lines(input, InputFormat::Json, version)
    }

    pub(super) fn lines(
        input: Box<dyn BufRead + Send>,
        form: InputFormat,
        version: DocArrayVersion,
    ) -> Self {
        Self {
            input: Input::Lines {
                lines: Lines::new(input),
                form,
            },
            version,
            len: None,
        }
    }

    /// Sets the version of the documents.
    pub(crate) fn with_version(self, version: DocArrayVersion) -> Self {
        Self { version, ..self }
    }

    /// Sets the length of the input in bytes.
    pub(super) fn with_len(self, len: Option<u64>) -> Self {
        Self { len, ..self }
    }

    /// The length of the input in bytes, if that is known.
    pub(super) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Whether a request without documents is to be sent.
    pub(super) fn is_without_documents(&self) -> bool {
        matches!(&self.input, Input::Texts(texts) if texts.len() == 0)
    }

    /// The next entry. `None` at the end of the input.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputEntry>> {
        match &mut self.input {
            Input::Texts(texts) => Ok(texts.next().map(|(at, text)| InputEntry {
                number: at as u64 + 1,
                end: 0,
                document: Ok(from_text(&text, self.version)),
            })),
            Input::Lines { lines, form } => {
                while let Some(line) = lines.next()? {
                    if *form == InputFormat::Plain || !(is_blank(&line) || is_results(&line)) {
                        return Ok(Some(from_line(line, *form, self.version)));
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

/// Whether `reply_writer.rs` wrote the line for the results of executors.
fn is_results(line: &Line) -> bool {
    let begins = |text: &String| text.starts_with("{\"__results__\":");
    line.text.as_ref().is_ok_and(begins)
}

fn from_line(line: Line, form: InputFormat, version: DocArrayVersion) -> InputEntry {
    let document = line
        .text
        .map_err(BadEntry::Line)
        .and_then(|text| match form {
            InputFormat::Plain => Ok(from_text(&text, version)),
            InputFormat::Json => from_json(&text, version),
        });
    InputEntry {
        number: line.number,
        end: line.end,
        document,
    }
}

fn from_json(text: &str, version: DocArrayVersion) -> Result<Document, BadEntry> {
    match serde_json::from_str(text).map_err(|error| not_json(&error))? {
        Value::String(text) => Ok(from_text(&text, version)),
        value => Document::from_json(version, &value).map_err(BadEntry::Document),
    }
}

/// serde counts lines in the text, which is always one line of the input.
fn not_json(error: &serde_json::Error) -> BadEntry {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
    BadEntry::Json {
        message,
        column: error.column(),
    }
}

fn from_text(text: &str, version: DocArrayVersion) -> Document {
    let mut document = Document::of_version(version);
    document.set_text(text);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(input: &'static str, form: InputFormat) -> Vec<InputEntry> {
        let mut source = InputSource::lines(Box::new(input.as_bytes()), form, DocArrayVersion::V1);
        std::iter::from_fn(|| source.next().unwrap()).collect()
    }

    fn check(input: &'static str, form: InputFormat, wanted: &[(u64, &str)]) {
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
        let error = entries(input, InputFormat::Json)
            .remove(0)
            .document
            .unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }

    #[test]
    fn objects_are_documents_and_strings_are_texts() {
        check(
            "{\"text\": \"a\"}\n\"b\"\n",
            InputFormat::Json,
            &[(1, "a"), (2, "b")],
        );
    }

    #[test]
    fn blank_lines_are_skipped_in_json_and_counted() {
        check(
            "\"a\"\n\n  \n\"b\"",
            InputFormat::Json,
            &[(1, "a"), (4, "b")],
        );
    }

    #[test]
    fn results_in_the_output_of_another_run_are_skipped() {
        let input = "\"a\"\n{\"__results__\":{\"index\":{\"count\":3}}}\n\"b\"";
        check(input, InputFormat::Json, &[(1, "a"), (3, "b")]);
    }

    #[test]
    fn every_plain_line_is_a_text() {
        check(
            "a\n\n{}\n",
            InputFormat::Plain,
            &[(1, "a"), (2, ""), (3, "{}")],
        );
    }

    #[test]
    fn a_bad_line_has_an_error_that_says_why() {
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
        let mut source =
            InputSource::texts(vec!["a".to_owned(), "b".to_owned()], DocArrayVersion::V2);
        assert!(!source.is_without_documents());
        let first = source.next().unwrap().unwrap();
        assert_eq!(
            (first.number, first.document.unwrap().version()),
            (1, DocArrayVersion::V2)
        );
        assert!(InputSource::texts(Vec::new(), DocArrayVersion::V1).is_without_documents());
    }
}
