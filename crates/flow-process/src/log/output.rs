//! Writes the lines of the log on a thread of its own.
//!
//! Code that logs never waits for the output: a paused terminal, a full pipe or a slow disk would otherwise stop the threads
//! that serve requests. The lines that wait are bounded; when there are too many, further ones are dropped, and a line says
//! how many.
//!
//! Lines are written immediately, except those of one target, which are buffered for some milliseconds: a log line for every
//! request would otherwise cost a system call for every request, here and in the process that reads the log. Lines keep their
//! order.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::format::LogFormat;
use crate::lossy::{DroppedLines, LossyReceiver, LossySender, SOME_MAX, lossy_channel};

/// Lines that may wait for the output; more are dropped. A gateway that logs 30,000 requests per second fills it in an eighth of a
/// second.
const LINES_MAX: usize = 4_096;

/// Maximum time that a line is buffered. It is too short for people to notice.
const BUFFERED_MAX: Duration = Duration::from_millis(10);

/// Opens the output.
type Open = Arc<dyn Fn() -> Box<dyn Write + Send> + Send + Sync>;

/// The output of the log. Clones write to the same one.
#[derive(Clone)]
pub(super) struct LineOutput {
    /// The way to the thread that writes; `None` if it could not be started.
    lines: Option<LossySender<Item>>,
    /// The name under which dropped lines are counted.
    name: Arc<str>,
    /// The process that the thread is part of. Its forks have no such thread.
    process: u32,
    open: Open,
    /// The target whose lines are buffered.
    buffered: Option<&'static str>,
}

/// What the thread gets.
enum Item {
    Line {
        text: Vec<u8>,
        is_buffered: bool,
    },
    Dropped(DroppedLines),
    /// Dropped when all lines before it are written.
    Flush {
        _done: SyncSender<()>,
    },
}

impl From<DroppedLines> for Item {
    fn from(dropped: DroppedLines) -> Self {
        Self::Dropped(dropped)
    }
}

impl LineOutput {
    /// Starts the thread that writes.
    pub(super) fn new(
        open: impl Fn() -> Box<dyn Write + Send> + Send + Sync + 'static,
        format: LogFormat,
        buffered: Option<&'static str>,
    ) -> Self {
        Self::with_capacity(LINES_MAX, Arc::new(open), format, buffered)
    }

    fn with_capacity(
        lines_max: usize,
        open: Open,
        format: LogFormat,
        buffered: Option<&'static str>,
    ) -> Self {
        let (lines, received) = lossy_channel(lines_max);
        let to = open();
        let thread = thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || write_lines(received, to, format));
        Self {
            // Without the thread, the caller writes the line.
            lines: started.is_ok().then_some(lines),
            name: "log".into(),
            process: std::process::id(),
            open,
            buffered,
        }
    }

    /// Waits until the lines that wait are written, or until the limit is over: an output that accepts no more, such as a full
    /// pipe, must not keep the process from exiting.
    pub(super) fn flush(&self, limit: Duration) {
        if let Some(lines) = self.to_thread() {
            let (done, written) = sync_channel(0);
            lines.send_after_lines(Item::Flush { _done: done });
            // Nothing is sent: the other end is dropped.
            written.recv_timeout(limit).ok();
        }
    }

    /// The way to the thread that writes, if this process has one.
    fn to_thread(&self) -> Option<&LossySender<Item>> {
        let lines = self.lines.as_ref()?;
        (self.process == std::process::id()).then_some(lines)
    }

    fn write(&self, line: &[u8], is_buffered: bool) -> io::Result<()> {
        let Some(lines) = self.to_thread() else {
            return (self.open)().write_all(line);
        };
        let text = line.to_vec();
        lines.send_line(&self.name, Item::Line { text, is_buffered });
        Ok(())
    }
}

/// Writes lines until all senders are gone.
fn write_lines(
    mut received: LossyReceiver<Item>,
    mut to: Box<dyn Write + Send>,
    format: LogFormat,
) {
    let mut bytes = Vec::new();
    while let Some(items) = received.blocking_recv_some() {
        let may_be_more = items.len() == SOME_MAX;
        let mut has_buffered = false;
        let mut flushes = Vec::new();
        for item in items {
            match item {
                Item::Line { text, is_buffered } => {
                    bytes.extend_from_slice(&text);
                    has_buffered |= is_buffered;
                }
                Item::Dropped(dropped) => {
                    bytes.extend_from_slice(line_of_dropped(dropped.count, format).as_bytes());
                }
                flush @ Item::Flush { .. } => flushes.push(flush),
            }
        }
        // There is nowhere to report that the log cannot be written.
        to.write_all(&bytes).and_then(|()| to.flush()).ok();
        bytes.clear();
        drop(flushes);
        if has_buffered && !may_be_more {
            thread::sleep(BUFFERED_MAX);
        }
    }
}

/// The line that says how many lines are missing.
fn line_of_dropped(count: u64, format: LogFormat) -> String {
    let mut at = String::new();
    // Writing to a string does not fail.
    SystemTime.format_time(&mut Writer::new(&mut at)).ok();
    let lines = if count == 1 { "line" } else { "lines" };
    let target = module_path!();
    let message =
        format!("dropped {count} log {lines}, because the log's reader did not keep up with them");
    match format {
        LogFormat::Text => format!("{at}  WARN {target}: {message}\n"),
        LogFormat::Json => {
            let fields = json!({"message": message, "dropped": count});
            let line =
                json!({"timestamp": at, "level": "WARN", "fields": fields, "target": target});
            format!("{line}\n")
        }
    }
}

impl fmt::Debug for LineOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LineOutput");
        debug
            .field("process", &self.process)
            .field("buffered", &self.buffered)
            .finish_non_exhaustive()
    }
}

/// Takes one line, which it gets in one call.
#[derive(Debug)]
pub(super) struct LineWriter<'o> {
    output: &'o LineOutput,
    is_buffered: bool,
}

impl<'o> MakeWriter<'o> for LineOutput {
    type Writer = LineWriter<'o>;

    fn make_writer(&'o self) -> LineWriter<'o> {
        LineWriter {
            output: self,
            is_buffered: false,
        }
    }

    fn make_writer_for(&'o self, event: &Metadata<'_>) -> LineWriter<'o> {
        LineWriter {
            output: self,
            is_buffered: self.buffered == Some(event.target()),
        }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.output.write(line, self.is_buffered)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
