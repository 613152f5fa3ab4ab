//! Lines that children write: passed on as they come, the last ones kept for when a child dies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

use crate::event::Event;
use crate::journal::Journal;
use crate::log_line::{LogLine, LogSource};

/// Lines kept of a child: a Rust panic or a Python traceback of usual depth.
const KEPT_MAX: usize = 20;

/// A longer line is passed on in pieces, so that a child cannot fill our memory.
const LINE_LEN_MAX: u64 = 16 * 1024;

/// Where lines of processes and news of them go.
#[derive(Debug, Clone)]
pub(crate) struct Outlets {
    /// Whoever started the flow; none: it is not to hear of this process.
    pub(crate) events: Option<mpsc::Sender<Event>>,
    /// The log files, where there are any.
    pub(crate) journal: Option<Journal>,
}

impl Outlets {
    /// Notes in the log of a process what happens to it.
    pub(crate) async fn note(&self, name: &Arc<str>, text: String) {
        if let Some(journal) = &self.journal {
            let line = LogLine::now(LogSource::Flow, text);
            journal.write(name.clone(), line).await;
        }
    }

    /// Passes news on. Waits while nobody reads: a child is slowed rather than its words lost.
    pub(crate) async fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            // Nobody listens any more: then there is nobody to tell.
            drop(events.send(event).await);
        }
    }
}

/// Who gets a child's lines, and the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    name: Arc<str>,
    outlets: Outlets,
    kept: Arc<Mutex<VecDeque<String>>>,
}

impl Relay {
    pub(crate) fn new(name: Arc<str>, outlets: Outlets) -> Self {
        Self {
            name,
            outlets,
            kept: Arc::default(),
        }
    }

    /// Passes a line on.
    pub(crate) async fn line(&self, source: LogSource, line: String) {
        self.keep(line.clone());
        let name = self.name.clone();
        if let Some(journal) = &self.outlets.journal {
            let line = LogLine::now(source, line.clone());
            journal.write(name.clone(), line).await;
        }
        self.outlets.tell(Event::Line { name, line }).await;
    }

    /// Passes on all lines of the child's standard error.
    pub(crate) async fn all_errors(self, stderr: impl AsyncRead + Unpin) {
        let mut lines = Lines::new(stderr);
        while let Some(line) = lines.next().await {
            self.line(LogSource::Stderr, line).await;
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }

    fn keep(&self, line: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

/// A stream cut into lines, whatever its bytes.
pub(crate) struct Lines<R> {
    stream: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// The next line without its end; none when the stream has ended or failed.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let bytes = read_line(&mut self.stream).await?;
        Some(shown(&bytes))
    }
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream
        .take(LINE_LEN_MAX)
        .read_until(b'\n', &mut bytes)
        .await;
    match read {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(bytes),
    }
}

/// What a terminal would leave standing of a line: a progress bar goes back to the line's start and
/// writes over itself.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_end_matches(['\n', '\r']);
    let last = line.rsplit('\r').next().unwrap_or(line);
    last.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(stream: &[u8], expected: &[&str]) {
        let mut lines = Lines::new(stream);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            found.push(line);
        }
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn a_stream_is_cut_into_lines_whatever_its_bytes() {
        check(b"", &[]).await;
        check(b"one\ntwo\r\n\nlast", &["one", "two", "", "last"]).await;
        check(b"bad \xff byte\n", &["bad \u{fffd} byte"]).await;
        check(b" 10 %\r 50 %\r100 %\n", &["100 %"]).await;
    }

    #[tokio::test]
    async fn a_line_without_an_end_comes_in_pieces() {
        let len_max = usize::try_from(LINE_LEN_MAX).unwrap();
        let piece = "a".repeat(len_max);
        check(piece.as_bytes(), &[&piece]).await;
        check(format!("{piece}b").as_bytes(), &[&piece, "b"]).await;
    }

    #[tokio::test]
    async fn the_last_lines_are_kept() {
        let outlets = Outlets {
            events: None,
            journal: None,
        };
        let relay = Relay::new("encoder".into(), outlets);
        for number in 0..KEPT_MAX + 2 {
            relay.line(LogSource::Stdout, number.to_string()).await;
        }
        let kept = relay.last_lines();
        assert_eq!(kept.len(), KEPT_MAX);
        assert_eq!((kept[0].as_str(), kept[KEPT_MAX - 1].as_str()), ("2", "21"));
    }
}
