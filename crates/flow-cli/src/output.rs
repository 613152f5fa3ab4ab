//! All output of the program.
//!
//! Writing is fallible, so that a reader that closes its end early (`flow check … | head -1`) ends the program quietly;
//! `println!` would panic. Colors are for terminals, and `NO_COLOR` turns them off.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

use crate::layout::wrap_report;
use crate::shell::Shell;

/// Columns of a terminal that does not report them.
const COLUMNS_DEFAULT: usize = 80;

/// Writes a line to stdout.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
}

/// Writes text with line ends to stdout.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes a line to stderr. Does nothing if stderr is closed.
pub(crate) fn error_line(text: &str) {
    error_lines(&format!("{text}\n"));
}

/// Writes lines with their ends to stderr at once. Does nothing if stderr is closed.
pub(crate) fn error_lines(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// Writes a report to stderr, wrapped to the terminal.
pub(crate) fn error_report(text: &str) {
    match columns(io::stderr()) {
        Some(columns) => error_line(&wrap_report(text, columns)),
        None => error_line(text),
    }
}

/// The number of columns of the terminal of an output. `None` if it is not a terminal, and lines may have any length.
pub(crate) fn columns(output: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(output).ok()?;
    Some(match size.ws_col {
        0 => COLUMNS_DEFAULT,
        columns => columns.into(),
    })
}

/// Whether the reader of our output is gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// A style of text on a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    Bold,
    Dim,
    Green,
    Yellow,
    Cyan,
}

impl Colour {
    fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Cyan => 36,
        }
    }
}

/// Adds styles to text for one output, if it is a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Painter {
    is_on: bool,
}

impl Painter {
    /// For text on stdout.
    pub(crate) fn stdout(shell: &Shell) -> Self {
        Self {
            is_on: shell.wants_colour && io::stdout().is_terminal(),
        }
    }

    /// For text on stderr.
    pub(crate) fn stderr(shell: &Shell) -> Self {
        Self {
            is_on: shell.wants_colour && io::stderr().is_terminal(),
        }
    }

    /// Adds no styles.
    pub(crate) fn off() -> Self {
        Self { is_on: false }
    }

    /// Whether styles are on.
    pub(crate) fn is_on(self) -> bool {
        self.is_on
    }

    /// The text with a style, if styles are on.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        if self.is_on {
            format!("\u{1b}[{}m{text}\u{1b}[0m", colour.code())
        } else {
            text.to_owned()
        }
    }
}
