//! Writes the lines of the log.
//!
//! A line is written at once, but for those of one target: they wait for each other for some milliseconds, so that a line for
//! every request does not cost a system call for every request, here and in the process that reads the log. The order of lines
//! stays: a line that is written at once takes those before it along.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// Lines are written when they have this many bytes: half of what a pipe holds.
const BATCH_LEN_MAX: usize = 32 << 10;

/// How long a line may wait for others. People do not notice it.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// The output of the log. Clones write to the same one.
#[derive(Debug, Clone)]
pub(super) struct LineOutput {
    shared: Arc<Shared>,
    /// The target whose lines may wait.
    batched: Option<&'static str>,
}

#[derive(Debug)]
struct Shared {
    pending: Mutex<Pending>,
    /// Notified when the first line waits.
    some_wait: Condvar,
}

/// Lines that are not written yet.
struct Pending {
    lines: Vec<u8>,
    to: Box<dyn Write + Send>,
}

impl LineOutput {
    /// Starts the thread that writes the lines that waited, if there is a target with such lines.
    pub(super) fn new(to: Box<dyn Write + Send>, batched: Option<&'static str>) -> Self {
        let lines = Vec::new();
        let shared = Arc::new(Shared {
            pending: Mutex::new(Pending { lines, to }),
            some_wait: Condvar::new(),
        });
        let output = Self {
            shared: shared.clone(),
            batched: None,
        };
        if batched.is_none() {
            return output;
        }
        let thread = thread::Builder::new().name("log-lines".to_owned());
        match thread.spawn(move || shared.write_what_waits()) {
            Ok(_runs_until_the_process_ends) => Self { batched, ..output },
            // Without the thread, every line is written at once.
            Err(_) => output,
        }
    }

    /// Writes the lines that wait.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.shared.lock().write()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_what_waits(&self) {
        loop {
            let is_empty = |pending: &mut Pending| pending.lines.is_empty();
            let some = self.some_wait.wait_while(self.lock(), is_empty);
            drop(some.unwrap_or_else(PoisonError::into_inner));
            thread::sleep(WAIT_MAX);
            // Nobody is there to hear of a log that cannot be written.
            self.lock().write().ok();
        }
    }
}

impl Pending {
    /// Lines that cannot be written are dropped, so that they do not fill the memory.
    fn write(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.lines);
        self.lines.clear();
        written.and_then(|()| self.to.flush())
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pending");
        debug
            .field("len", &self.lines.len())
            .finish_non_exhaustive()
    }
}

/// Writes one line, which it gets in one call.
#[derive(Debug)]
pub(super) struct LineWriter<'o> {
    shared: &'o Shared,
    may_wait: bool,
}

impl<'o> MakeWriter<'o> for LineOutput {
    type Writer = LineWriter<'o>;

    fn make_writer(&'o self) -> LineWriter<'o> {
        LineWriter {
            shared: &self.shared,
            may_wait: false,
        }
    }

    fn make_writer_for(&'o self, event: &Metadata<'_>) -> LineWriter<'o> {
        LineWriter {
            shared: &self.shared,
            may_wait: self.batched == Some(event.target()),
        }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut pending = self.shared.lock();
        let is_first = pending.lines.is_empty();
        pending.lines.extend_from_slice(line);
        if !self.may_wait || pending.lines.len() >= BATCH_LEN_MAX {
            pending.write()?;
        } else if is_first {
            self.shared.some_wait.notify_one();
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

    fn output(batched: Option<&'static str>) -> (LineOutput, Receiver<String>) {
        let (sender, writes) = channel();
        (LineOutput::new(Box::new(Writes(sender)), batched), writes)
    }

    fn write(output: &LineOutput, may_wait: bool, line: &str) {
        let shared = &output.shared;
        LineWriter { shared, may_wait }
            .write_all(line.as_bytes())
            .unwrap();
    }

    #[test]
    fn lines_that_may_wait_are_written_together_before_the_next_that_may_not() {
        let (output, writes) = output(None);
        write(&output, true, "1\n");
        write(&output, true, "2\n");
        assert!(writes.try_recv().is_err());
        write(&output, false, "3\n");
        assert_eq!(writes.try_recv().unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn a_line_does_not_wait_for_ever() {
        let (output, writes) = output(Some("access"));
        for line in ["1\n", "2\n"] {
            write(&output, true, line);
            assert_eq!(writes.recv().unwrap(), line);
        }
    }

    #[test]
    fn many_lines_are_written_when_they_fill_half_a_pipe() {
        let (output, writes) = output(None);
        let line = "a".repeat(BATCH_LEN_MAX / 2);
        write(&output, true, &line);
        assert!(writes.try_recv().is_err());
        write(&output, true, &line);
        assert_eq!(writes.try_recv().unwrap().len(), BATCH_LEN_MAX);
        output.flush().unwrap();
        assert!(writes.try_recv().is_err());
    }

    #[test]
    fn only_lines_of_the_target_wait() {
        let (sender, writes) = channel();
        // Without its thread, so that nothing is written in the meantime.
        let output = LineOutput {
            batched: Some("access"),
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
    fn lines_that_wait_are_written_when_the_log_is_flushed() {
        let (output, writes) = output(None);
        write(&output, true, "last\n");
        output.flush().unwrap();
        assert_eq!(writes.try_recv().unwrap(), "last\n");
    }

    #[test]
    fn lines_that_cannot_be_written_take_no_memory() {
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
            may_wait: false,
        };
        assert!(writer.write(b"lost\n").is_err());
        assert!(output.shared.lock().lines.is_empty());
    }
}
