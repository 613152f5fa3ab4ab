//! Writes the lines of the log.
//!
//! Lines are written immediately, except those of one target, which are buffered for some milliseconds: a log line for every
//! request would otherwise cost a system call for every request, here and in the process that reads the log. Lines keep their
//! order: a line that is written immediately flushes the buffer first.

use std::fmt;
use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// The buffer is written when it has this many bytes: half the capacity of a pipe.
const BUFFER_LEN_MAX: usize = 32 << 10;

/// Maximum time that a line is buffered. It is too short for people to notice.
const BUFFERED_MAX: Duration = Duration::from_millis(10);

/// The output of the log. Clones write to the same one.
#[derive(Debug, Clone)]
pub(super) struct LineOutput {
    shared: Arc<Shared>,
    /// The target whose lines are buffered.
    buffered: Option<&'static str>,
}

#[derive(Debug)]
struct Shared {
    buffer: Mutex<Buffer>,
    /// Notified when the buffer gets its first line.
    has_lines: Condvar,
}

/// The buffered lines, and the output.
struct Buffer {
    lines: Vec<u8>,
    to: Box<dyn Write + Send>,
}

impl LineOutput {
    /// Starts the thread that writes buffered lines, if there is a target whose lines are buffered.
    pub(super) fn new(to: Box<dyn Write + Send>, buffered: Option<&'static str>) -> Self {
        let lines = Vec::new();
        let shared = Arc::new(Shared {
            buffer: Mutex::new(Buffer { lines, to }),
            has_lines: Condvar::new(),
        });
        let output = Self {
            shared: shared.clone(),
            buffered: None,
        };
        if buffered.is_none() {
            return output;
        }
        let thread = thread::Builder::new().name("log-lines".to_owned());
        match thread.spawn(move || shared.write_buffered()) {
            Ok(_runs_until_the_process_ends) => Self { buffered, ..output },
            // Without the thread, every line is written immediately.
            Err(_) => output,
        }
    }

    /// Writes the buffered lines, and waits until they are written or the limit is over: an output that accepts no more, such as
    /// a full pipe, must not keep the process from exiting.
    pub(super) fn flush(&self, limit: Duration) {
        let shared = self.shared.clone();
        let (done, ended) = sync_channel(1);
        let write = move || {
            // There is nowhere to report that the log cannot be written.
            shared.lock().write().ok();
            done.send(()).ok();
        };
        let thread = thread::Builder::new().name("log-flush".to_owned());
        if thread.spawn(write).is_ok() {
            ended.recv_timeout(limit).ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_buffered(&self) {
        loop {
            let is_empty = |buffer: &mut Buffer| buffer.lines.is_empty();
            let some = self.has_lines.wait_while(self.lock(), is_empty);
            drop(some.unwrap_or_else(PoisonError::into_inner));
            thread::sleep(BUFFERED_MAX);
            // There is nowhere to report that the log cannot be written.
            self.lock().write().ok();
        }
    }
}

impl Buffer {
    /// Lines that cannot be written are dropped, so that they do not fill the memory.
    fn write(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.lines);
        self.lines.clear();
        written.and_then(|()| self.to.flush())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Buffer");
        debug
            .field("len", &self.lines.len())
            .finish_non_exhaustive()
    }
}

/// Writes one line, which it gets in one call.
#[derive(Debug)]
pub(super) struct LineWriter<'o> {
    shared: &'o Shared,
    is_buffered: bool,
}

impl<'o> MakeWriter<'o> for LineOutput {
    type Writer = LineWriter<'o>;

    fn make_writer(&'o self) -> LineWriter<'o> {
        LineWriter {
            shared: &self.shared,
            is_buffered: false,
        }
    }

    fn make_writer_for(&'o self, event: &Metadata<'_>) -> LineWriter<'o> {
        LineWriter {
            shared: &self.shared,
            is_buffered: self.buffered == Some(event.target()),
        }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut buffer = self.shared.lock();
        let is_first = buffer.lines.is_empty();
        buffer.lines.extend_from_slice(line);
        if !self.is_buffered || buffer.lines.len() >= BUFFER_LEN_MAX {
            buffer.write()?;
        } else if is_first {
            self.shared.has_lines.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Sends what is written in each call.
    struct Writes(Sender<String>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            self.0.send(text).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output(buffered: Option<&'static str>) -> (LineOutput, Receiver<String>) {
        let (sender, writes) = channel();
        (LineOutput::new(Box::new(Writes(sender)), buffered), writes)
    }

    fn write(output: &LineOutput, is_buffered: bool, line: &str) {
        let shared = &output.shared;
        LineWriter {
            shared,
            is_buffered,
        }
        .write_all(line.as_bytes())
        .unwrap();
    }

    #[test]
    fn buffered_lines_are_written_together_before_the_next_line_that_is_not_buffered() {
        let (output, writes) = output(None);
        write(&output, true, "1\n");
        write(&output, true, "2\n");
        assert!(writes.try_recv().is_err());
        write(&output, false, "3\n");
        assert_eq!(writes.try_recv().unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn a_buffered_line_is_written_soon() {
        let (output, writes) = output(Some("access"));
        for line in ["1\n", "2\n"] {
            write(&output, true, line);
            assert_eq!(writes.recv().unwrap(), line);
        }
    }

    #[test]
    fn a_full_buffer_is_written() {
        let (output, writes) = output(None);
        let line = "a".repeat(BUFFER_LEN_MAX / 2);
        write(&output, true, &line);
        assert!(writes.try_recv().is_err());
        write(&output, true, &line);
        assert_eq!(writes.try_recv().unwrap().len(), BUFFER_LEN_MAX);
        assert!(output.shared.lock().lines.is_empty());
    }

    #[test]
    fn only_lines_of_the_target_are_buffered() {
        let (sender, writes) = channel();
        // Without its thread, so that nothing is written in the meantime.
        let output = LineOutput {
            buffered: Some("access"),
            ..LineOutput::new(Box::new(Writes(sender)), None)
        };
        let of_dispatch = output.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(of_dispatch)
            .without_time()
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "access", "one");
            assert!(writes.try_recv().is_err());
            tracing::info!(target: "other", "two");
        });
        let written = writes.try_recv().unwrap();
        assert_eq!(written, " INFO access: one\n INFO other: two\n");
    }

    #[test]
    fn a_flush_writes_the_buffered_lines() {
        let (output, writes) = output(None);
        write(&output, true, "last\n");
        output.flush(Duration::MAX);
        assert_eq!(writes.try_recv().unwrap(), "last\n");
    }

    #[test]
    fn an_output_that_accepts_nothing_does_not_block_the_exit() {
        /// Waits for a message that is never sent.
        struct Full(Receiver<()>);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.recv().ok();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (never, full) = channel();
        let output = LineOutput::new(Box::new(Full(full)), None);
        write(&output, true, "last\n");
        output.flush(Duration::from_millis(1));
        drop(never);
    }

    #[test]
    fn lines_that_cannot_be_written_are_dropped() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let output = LineOutput::new(Box::new(Closed), None);
        let shared = &output.shared;
        let mut writer = LineWriter {
            shared,
            is_buffered: false,
        };
        assert!(writer.write(b"lost\n").is_err());
        assert!(output.shared.lock().lines.is_empty());
    }
}
