//! Where the documents go that come back.

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use serde_json::Value;

use super::new_file::NewFile;
use super::options::{Output, Post};
use super::readable::readable;
use crate::exit::BadUsage;
use crate::output;

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

    /// Writes the documents of one reply. Whoever reads standard output gets them at once.
    pub(super) fn write(&mut self, documents: &[Value]) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Readable { is_first } => {
                let gap = if *is_first || documents.is_empty() {
                    ""
                } else {
                    "\n"
                };
                *is_first &= documents.is_empty();
                let texts: Vec<String> = documents.iter().map(readable).collect();
                output::bytes(format!("{gap}{}", texts.join("\n")).as_bytes())
            }
            Self::Stdout => {
                let mut lines = Vec::new();
                write_lines(&mut lines, documents)?;
                output::bytes(&lines)
            }
            Self::File(file) => write_lines(file, documents),
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

fn write_lines(out: &mut impl Write, documents: &[Value]) -> io::Result<()> {
    for document in documents {
        serde_json::to_writer(&mut *out, document)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
