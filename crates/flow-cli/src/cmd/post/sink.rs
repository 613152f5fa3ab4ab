//! Where the documents go that come back.

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use flow_core::parameters::RESULTS;
use serde_json::json;

use super::answer::Answer;
use super::new_file::NewFile;
use super::options::{Output, Post};
use super::readable::{readable, readable_results};
use crate::exit::BadUsage;
use crate::output;

/// Longest line of a document inside another where no terminal says how long it may be.
const COLUMNS_MAX: usize = 200;

/// An output that was opened.
pub(super) enum Sink {
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

impl Sink {
    /// Opens what the options name.
    pub(super) fn open(post: &Post) -> anyhow::Result<Self> {
        Ok(match post.output() {
            Output::Nowhere => Self::Nowhere,
            Output::Readable => Self::Readable { is_first: true },
            Output::Stdout => Self::Stdout,
            Output::File(path) => {
                let file = NewFile::create(path)
                    .with_context(|| BadUsage(format!("cannot write `{}`", path.display())))?;
                Self::File(Box::new(BufWriter::new(file)))
            }
        })
    }

    /// Whether what is written here would get in the way of a progress bar.
    pub(super) fn is_on_terminal(&self) -> bool {
        matches!(self, Self::Readable { .. } | Self::Stdout) && io::stdout().is_terminal()
    }

    /// Whether nothing is shown or written.
    pub(super) fn is_nowhere(&self) -> bool {
        matches!(self, Self::Nowhere)
    }

    /// Writes what one reply holds. Whoever reads standard output gets it at once.
    pub(super) fn write(&mut self, answer: &Answer) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Readable { is_first } => {
                let blocks = blocks(answer);
                let gap = if *is_first || blocks.is_empty() {
                    ""
                } else {
                    "\n"
                };
                *is_first &= blocks.is_empty();
                output::bytes(format!("{gap}{}", blocks.join("\n")).as_bytes())
            }
            Self::Stdout => {
                let mut lines = Vec::new();
                write_lines(&mut lines, answer)?;
                output::bytes(&lines)
            }
            Self::File(file) => write_lines(file, answer),
        }
    }

    /// Makes a file appear under its name. Without this it leaves no trace.
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

/// A reply for people to read, in parts with an empty line between them.
fn blocks(answer: &Answer) -> Vec<String> {
    let columns = output::columns(io::stdout()).unwrap_or(COLUMNS_MAX);
    let documents = answer.documents.iter().map(|it| readable(it, columns));
    let results = (!answer.results.is_empty()).then(|| readable_results(&answer.results));
    documents.chain(results).collect()
}

/// A line for each document, and one for what executors returned besides.
fn write_lines(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let results = (!answer.results.is_empty()).then(|| json!({ RESULTS: answer.results }));
    for value in answer.documents.iter().chain(&results) {
        serde_json::to_writer(&mut *out, value)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
