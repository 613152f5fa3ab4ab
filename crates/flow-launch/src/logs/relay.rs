//! Passes on the lines that children write, and keeps the last ones for when a child exits.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncRead;

use crate::event::{EventSender, FlowEvent};
use crate::logs::line_reader::LineReader;
use crate::logs::lines::{LastLines, Lines};
use crate::logs::log_files::LogFiles;
use crate::logs::log_line::LogSource;

/// Last lines kept of a child: a Rust panic or a Python traceback of usual depth.
const LAST_LINES_MAX: usize = 20;

/// Where lines and events of a process go. Sending never waits.
#[derive(Debug, Clone)]
pub(crate) struct LogSinks {
    /// `None` for a process whose lines are not to be shown.
    pub(crate) events: Option<EventSender>,
    /// `None` for a flow without log files.
    pub(crate) files: Option<LogFiles>,
}

impl LogSinks {
    /// Writes a note about a process to its log file.
    pub(crate) fn note(&self, name: &Arc<str>, text: String) {
        if let Some(files) = &self.files {
            files.write(name, LogSource::Flow, Lines::new(text));
        }
    }

    /// Sends an event that is not a line.
    pub(crate) fn send(&self, event: FlowEvent) {
        if let Some(events) = &self.events {
            events.send(event);
        }
    }
}

/// Passes on the output of one child.
#[derive(Debug, Clone)]
pub(crate) struct OutputRelay {
    name: Arc<str>,
    sinks: LogSinks,
    last_lines: Arc<Mutex<LastLines>>,
}

impl OutputRelay {
    pub(crate) fn new(name: Arc<str>, sinks: LogSinks) -> Self {
        Self {
            name,
            sinks,
            last_lines: Arc::new(Mutex::new(LastLines::new(LAST_LINES_MAX))),
        }
    }

    /// Passes on a line.
    pub(crate) fn line(&self, source: LogSource, line: String) {
        self.lines(source, Lines::new(line));
    }

    fn lines(&self, source: LogSource, lines: Lines) {
        let last_lines = self.last_lines.lock();
        let mut last_lines = last_lines.unwrap_or_else(PoisonError::into_inner);
        last_lines.push(self.name.clone(), lines.clone());
        drop(last_lines);
        if let Some(files) = &self.sinks.files {
            files.write(&self.name, source, lines.clone());
        }
        if let Some(events) = &self.sinks.events {
            let name = self.name.clone();
            let count = lines.count();
            events.send_lines(&self.name, FlowEvent::Lines { name, lines }, count);
        }
    }

    /// Passes on all lines of the child's standard error.
    pub(crate) async fn relay_stderr(self, stderr: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(stderr);
        while let Some(lines) = lines.next_lines().await {
            self.lines(LogSource::Stderr, lines);
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let last_lines = self.last_lines.lock();
        let last_lines = last_lines.unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = last_lines.of(&self.name).collect();
        let more = lines.len().saturating_sub(LAST_LINES_MAX);
        lines[more..].iter().map(|&line| line.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let sinks = LogSinks {
            events: None,
            files: None,
        };
        let relay = OutputRelay::new("encoder".into(), sinks);
        relay.line(LogSource::Stdout, "0".to_owned());
        relay.lines(LogSource::Stderr, Lines::new("1\n2\n3"));
        for number in 4..LAST_LINES_MAX + 2 {
            relay.line(LogSource::Stdout, number.to_string());
        }
        let kept = relay.last_lines();
        assert_eq!(kept.len(), LAST_LINES_MAX);
        let ends = (kept[0].as_str(), kept[LAST_LINES_MAX - 1].as_str());
        assert_eq!(ends, ("2", "21"));
    }
}
