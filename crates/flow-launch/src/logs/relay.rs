//! Passes on the lines that children write, and keeps the last ones for when a child exits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncRead;

use crate::event::{EventSender, FlowEvent};
use crate::logs::line_reader::LineReader;
use crate::logs::log_files::LogFiles;
use crate::logs::log_line::{LogLine, LogSource};

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
            files.write(name, LogLine::now(LogSource::Flow, text.into()));
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
    last_lines: Arc<Mutex<VecDeque<Arc<str>>>>,
}

impl OutputRelay {
    pub(crate) fn new(name: Arc<str>, sinks: LogSinks) -> Self {
        Self {
            name,
            sinks,
            last_lines: Arc::default(),
        }
    }

    /// Passes on a line.
    pub(crate) fn line(&self, source: LogSource, line: String) {
        let line: Arc<str> = line.into();
        self.keep(line.clone());
        let name = &self.name;
        if let Some(files) = &self.sinks.files {
            files.write(name, LogLine::now(source, line.clone()));
        }
        if let Some(events) = &self.sinks.events {
            let name = name.clone();
            events.send_line(&self.name, FlowEvent::Line { name, line });
        }
    }

    /// Passes on all lines of the child's standard error.
    pub(crate) async fn relay_stderr(self, stderr: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(stderr);
        while let Some(line) = lines.next().await {
            self.line(LogSource::Stderr, line);
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let kept = self.last_lines.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|line| line.to_string()).collect()
    }

    fn keep(&self, line: Arc<str>) {
        let kept = self.last_lines.lock();
        let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LAST_LINES_MAX {
            kept.pop_front();
        }
        kept.push_back(line);
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
        for number in 0..LAST_LINES_MAX + 2 {
            relay.line(LogSource::Stdout, number.to_string());
        }
        let kept = relay.last_lines();
        assert_eq!(kept.len(), LAST_LINES_MAX);
        let ends = (kept[0].as_str(), kept[LAST_LINES_MAX - 1].as_str());
        assert_eq!(ends, ("2", "21"));
    }
}
