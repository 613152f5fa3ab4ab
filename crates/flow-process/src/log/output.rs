//! Writes the lines of the log on a thread of its own.
//!
//! Code that logs never waits for the output: a paused terminal, a full pipe or a slow disk would otherwise stop the threads
//! that serve requests. The lines that wait are bounded; when there are too many, further ones are dropped, and a line says
//! how many.
//!
//! Lines are written immediately, except those of one target, which are buffered for some milliseconds: a log line for every
//! request would otherwise cost a system call for every request, here and in the process that reads the log. Lines keep their
//! order.
//!
//! The lines that wait are one text. A text for each line would be allocated by the thread that serves and freed by the one
//! that writes, which costs the serving thread more than the line itself.

use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::format::LogFormat;

/// Bytes that may wait for the output; lines beyond are dropped. A gateway that logs 30,000 requests per second fills it in an
/// eighth of a second.
const WAITING_MAX: usize = 2 << 20;

/// What the text of the lines that wait keeps of its memory when it is written.
const KEPT_MAX: usize = 256 << 10;

/// Maximum time that a line is buffered. It is too short for people to notice.
const BUFFERED_MAX: Duration = Duration::from_millis(10);

/// Opens the output.
type Open = Arc<dyn Fn() -> Box<dyn Write + Send> + Send + Sync>;

/// The output of the log. Clones write to the same one.
#[derive(Clone)]
pub(super) struct LineOutput {
    /// The way to the thread that writes; `None` if it could not be started.
    lines: Option<Arc<LineSender>>,
    /// The process that the thread is part of. Its forks have no such thread.
    process: u32,
    open: Open,
    /// The target whose lines are buffered.
    buffered: Option<&'static str>,
}

/// The lines that wait, and the thread that waits for them.
#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Notified when there is something to do for the thread.
    arrived: Condvar,
    bytes_max: usize,
    format: LogFormat,
}

/// What waits for the thread that writes.
#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    /// Lines that were dropped after the text.
    dropped: u64,
    /// Whether a line of the text need not be written immediately.
    has_buffered: bool,
    /// Each is dropped when the text is written.
    flushes: Vec<SyncSender<()>>,
    /// Whether the thread waits for something to do.
    is_idle: bool,
    /// Whether the last sender is gone.
    is_over: bool,
}

/// Sends lines to the thread, which ends when this is dropped.
#[derive(Debug)]
struct LineSender(Arc<Shared>);

impl LineOutput {
    /// Starts the thread that writes.
    pub(super) fn new(
        open: impl Fn() -> Box<dyn Write + Send> + Send + Sync + 'static,
        format: LogFormat,
        buffered: Option<&'static str>,
    ) -> Self {
        Self::with_capacity(WAITING_MAX, Arc::new(open), format, buffered)
    }

    fn with_capacity(
        bytes_max: usize,
        open: Open,
        format: LogFormat,
        buffered: Option<&'static str>,
    ) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            bytes_max,
            format,
        });
        let lines = LineSender(shared.clone());
        let to = open();
        let thread = thread::Builder::new().name("log".to_owned());
        let started = thread.spawn(move || shared.write_lines(to));
        Self {
            // Without the thread, the caller writes the line.
            lines: started.is_ok().then(|| Arc::new(lines)),
            process: std::process::id(),
            open,
            buffered,
        }
    }

    /// Waits until the lines that wait are written, or until the limit is over: an output that accepts no more, such as a full
    /// pipe, must not keep the process from exiting.
    pub(super) fn flush(&self, limit: Duration) {
        if let Some(LineSender(shared)) = self.to_thread() {
            let (done, written) = sync_channel(0);
            let mut waiting = shared.lock();
            waiting.flushes.push(done);
            shared.wake(&mut waiting);
            drop(waiting);
            // Nothing is sent: the other end is dropped.
            written.recv_timeout(limit).ok();
        }
    }

    /// The way to the thread that writes, if this process has one.
    fn to_thread(&self) -> Option<&LineSender> {
        let lines = self.lines.as_deref()?;
        (self.process == std::process::id()).then_some(lines)
    }

    fn write(&self, line: &[u8], is_buffered: bool) -> io::Result<()> {
        let Some(LineSender(shared)) = self.to_thread() else {
            return (self.open)().write_all(line);
        };
        shared.push(line, is_buffered);
        Ok(())
    }
}

impl Shared {
    /// Adds a line, or drops and counts it.
    ///
    /// Once a line is dropped, all are until the thread takes those that wait: a slow output gets runs of lines with reports
    /// between them.
    fn push(&self, line: &[u8], is_buffered: bool) {
        let mut waiting = self.lock();
        // A line that is longer than all that may wait is written if it is alone.
        let has_room = waiting.text.is_empty() || waiting.text.len() + line.len() <= self.bytes_max;
        if waiting.dropped > 0 || !has_room {
            waiting.dropped += 1;
            return;
        }
        waiting.text.extend_from_slice(line);
        waiting.has_buffered |= is_buffered;
        self.wake(&mut waiting);
    }

    fn wake(&self, waiting: &mut Waiting) {
        if mem::take(&mut waiting.is_idle) {
            self.arrived.notify_one();
        }
    }

    /// Writes lines until all senders are gone.
    fn write_lines(&self, mut to: Box<dyn Write + Send>) {
        let mut text = Vec::new();
        loop {
            let mut waiting = self.lock();
            while waiting.text.is_empty() && waiting.flushes.is_empty() {
                if waiting.is_over {
                    return;
                }
                waiting.is_idle = true;
                let waited = self.arrived.wait(waiting);
                waiting = waited.unwrap_or_else(PoisonError::into_inner);
            }
            waiting.report(self.format);
            mem::swap(&mut waiting.text, &mut text);
            let has_buffered = mem::take(&mut waiting.has_buffered);
            let flushes = mem::take(&mut waiting.flushes);
            drop(waiting);
            // There is nowhere to report that the log cannot be written.
            to.write_all(&text).and_then(|()| to.flush()).ok();
            text.clear();
            text.shrink_to(KEPT_MAX);
            let is_awaited = !flushes.is_empty();
            drop(flushes);
            if has_buffered && !is_awaited {
                thread::sleep(BUFFERED_MAX);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Adds a line that says how many were dropped.
    fn report(&mut self, format: LogFormat) {
        let dropped = mem::take(&mut self.dropped);
        if dropped > 0 {
            let line = line_of_dropped(dropped, format);
            self.text.extend_from_slice(line.as_bytes());
        }
    }
}

impl Drop for LineSender {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_over = true;
        self.0.wake(&mut waiting);
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
