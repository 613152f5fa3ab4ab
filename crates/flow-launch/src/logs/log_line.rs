//! A line of a log file: its time, its source and its text.
//!
//! `2026-11-22T03:16:05.123456Z stderr loading the model`. Times have a fixed width, so the lines of several
//! files sort as text.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// A line of a process, or a note about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When the supervisor read it. Log files keep microseconds.
    pub time: SystemTime,
    /// Its source.
    pub source: LogSource,
    /// The line, without its line end.
    pub text: Arc<str>,
}

/// The source of a line of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSource {
    /// The standard output of the process.
    Stdout,
    /// The standard error of the process.
    Stderr,
    /// The supervisor, which notes when a process starts, is ready and exits.
    Flow,
}

impl LogSource {
    const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Flow];

    /// The source as a log file names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Flow => "flow",
        }
    }
}

impl LogLine {
    /// Parses a line of a log file; `None` if another program wrote it.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (word, text) = rest.split_once(' ')?;
        let source = LogSource::ALL.into_iter().find(|it| it.as_str() == word)?;
        Some(Self {
            time: humantime::parse_rfc3339(time).ok()?,
            source,
            text: text.into(),
        })
    }
}

/// The line as a log file has it.
impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", line_start(self.time, self.source), self.text)
    }
}

/// What a log file has before the text of a line.
pub(crate) fn line_start(time: SystemTime, source: LogSource) -> String {
    let time = humantime::format_rfc3339_micros(time);
    format!("{time} {} ", source.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_line_is_parsed_as_it_was_written() {
        let check = |source, text: &str, expected: &str| {
            let line = LogLine {
                time: UNIX_EPOCH + Duration::from_micros(1_795_317_365_123_456),
                source,
                text: text.into(),
            };
            assert_eq!(line.to_string(), expected);
            assert_eq!(LogLine::parse(expected), Some(line));
        };
        check(
            LogSource::Stderr,
            "loading  the model ",
            "2026-11-22T03:16:05.123456Z stderr loading  the model ",
        );
        check(LogSource::Stdout, "", "2026-11-22T03:16:05.123456Z stdout ");
        check(
            LogSource::Flow,
            "ready",
            "2026-11-22T03:16:05.123456Z flow ready",
        );
    }

    #[test]
    fn other_lines_are_rejected() {
        for line in [
            "",
            "loading the model",
            "2026-11-22T03:16:05.123456Z",
            "2026-11-22T03:16:05.123456Z  INFO flow_gateway: waiting",
            "yesterday stderr x",
        ] {
            assert_eq!(LogLine::parse(line), None, "{line}");
        }
    }
}
