//! Writes replies: nowhere, for people, or as JSON lines.

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use flow_client::Reply;
use flow_core::parameters::RESULTS;
use flow_core::{Code, DocumentArray, Failure};
use serde_json::{Map, Value, json};

use super::new_file::NewFile;
use super::options::{OutputKind, Post};
use super::readable::{readable, readable_results};
use crate::escape::escape_json;
use crate::exit::BadUsage;
use crate::output;

/// Maximum columns of a line if stdout is not a terminal.
const COLUMNS_MAX: usize = 200;

/// The reply to a request that did not fail.
#[derive(Debug)]
pub(super) struct Answer<'r> {
    documents: &'r DocumentArray,
    /// A line of JSON for each document, and one for the results if there are any.
    lines: Vec<u8>,
    /// What executors returned besides documents, by their names.
    pub(super) results: &'r Map<String, Value>,
}

impl<'r> Answer<'r> {
    /// Fails if a document has no form in JSON.
    pub(super) fn of(reply: &'r Reply) -> Result<Self, Failure> {
        let lines = lines(&reply.documents, &reply.results);
        Ok(Self {
            documents: &reply.documents,
            lines: lines.map_err(|error| Failure::from_error(Code::Internal, &error))?,
            results: &reply.results,
        })
    }
}

fn lines(documents: &DocumentArray, results: &Map<String, Value>) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for document in documents.iter() {
        serde_json::to_writer(&mut lines, document)?;
        lines.push(b'\n');
    }
    if !results.is_empty() {
        serde_json::to_writer(&mut lines, &json!({ RESULTS: results }))?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// An open output.
pub(super) enum ReplyWriter {
    Nowhere,
    /// For people, on standard output.
    Readable {
        is_first: bool,
    },
    /// JSON lines on standard output.
    Stdout,
    /// JSON lines in a file.
    File(Box<BufWriter<NewFile>>),
}

impl ReplyWriter {
    /// Opens the output that the options name.
    pub(super) fn open(post: &Post) -> anyhow::Result<Self> {
        Ok(match post.output() {
            OutputKind::Nowhere => Self::Nowhere,
            OutputKind::Readable => Self::Readable { is_first: true },
            OutputKind::Stdout => Self::Stdout,
            OutputKind::File(path) => {
                let file = NewFile::create(path)
                    .with_context(|| BadUsage(format!("cannot write `{}`", path.display())))?;
                Self::File(Box::new(BufWriter::new(file)))
            }
        })
    }

    /// Whether the output is on the terminal, where it would interfere with a progress bar.
    pub(super) fn is_on_terminal(&self) -> bool {
        matches!(self, Self::Readable { .. } | Self::Stdout) && io::stdout().is_terminal()
    }

    /// Whether nothing is written.
    pub(super) fn is_nowhere(&self) -> bool {
        matches!(self, Self::Nowhere)
    }

    /// Writes a reply. Standard output is flushed.
    pub(super) fn write(&mut self, answer: &Answer<'_>) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Readable { is_first } => {
                let blocks = blocks(answer)?;
                let gap = if *is_first || blocks.is_empty() {
                    ""
                } else {
                    "\n"
                };
                *is_first &= blocks.is_empty();
                output::bytes(format!("{gap}{}", blocks.join("\n")).as_bytes())
            }
            Self::Stdout => {
                let lines = String::from_utf8_lossy(&answer.lines);
                output::bytes(escape_json(&lines).as_bytes())
            }
            Self::File(file) => file.write_all(&answer.lines),
        }
    }

    /// Makes a file appear under its name. A file that is not finished leaves no trace.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::File(file) => file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .finish(),
            Self::Nowhere | Self::Readable { .. } | Self::Stdout => Ok(()),
        }
    }
}

/// A reply for people to read, in blocks.
fn blocks(answer: &Answer<'_>) -> io::Result<Vec<String>> {
    let columns = output::columns(io::stdout()).unwrap_or(COLUMNS_MAX);
    let documents = answer.documents.iter().map(|it| {
        let json = it.to_json().map_err(io::Error::other)?;
        Ok(readable(&json, columns))
    });
    let results = (!answer.results.is_empty()).then(|| Ok(readable_results(answer.results)));
    documents.chain(results).collect()
}
