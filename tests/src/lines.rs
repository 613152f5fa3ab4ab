//! The output of a process, and waiting for a line of it.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How long a state may take to come: many times what it takes on a busy machine with two cores, and a
/// stock peer's start is the slowest of all.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// Where a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: what was asked for.
    Out,
    /// Standard error: what happened.
    Err,
}

/// One line of a process.
#[derive(Debug, Clone)]
pub struct Line {
    /// Where it was written.
    pub stream: Stream,
    /// The line, without its end.
    pub text: String,
}

#[derive(Debug, Default)]
struct Written {
    lines: Vec<Line>,
    /// Streams that are still open.
    open: usize,
}

/// The lines of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines(Arc<(Mutex<Written>, Condvar)>);

impl Lines {
    /// Reads a stream to its end on a thread of its own, so that its writer never waits.
    pub(crate) fn gather(&self, stream: Stream, from: impl Read + Send + 'static) {
        self.lock().open += 1;
        let lines = self.clone();
        thread::spawn(move || {
            for text in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let text = String::from_utf8_lossy(&text).into_owned();
                lines.change(|written| written.lines.push(Line { stream, text }));
            }
            lines.change(|written| written.open -= 1);
        });
    }

    pub(crate) fn all(&self) -> Vec<Line> {
        self.lock().lines.clone()
    }

    /// The first line from `skip` on that `wanted` takes; none when the process ended without it.
    pub(crate) fn wait_for(&self, skip: usize, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let find = |written: &Written| {
            let mut lines = written.lines.iter().skip(skip);
            lines
                .find(|line| wanted(&line.text))
                .map(|line| line.text.clone())
        };
        let written = self.wait(|written| written.open == 0 || find(written).is_some());
        find(&written)
    }

    /// Waits until the process has closed both streams.
    pub(crate) fn wait_for_end(&self) {
        drop(self.wait(|written| written.open == 0));
    }

    fn wait(&self, done: impl Fn(&Written) -> bool) -> MutexGuard<'_, Written> {
        let end = Instant::now() + LIMIT;
        let mut written = self.lock();
        while !done(&written) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(written);
                panic!("what was waited for did not come within {LIMIT:?}");
            }
            written = self.0.1.wait_timeout(written, left).unwrap().0;
        }
        written
    }

    fn change(&self, change: impl FnOnce(&mut Written)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.0.lock().unwrap()
    }
}
