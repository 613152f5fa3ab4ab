//! How a fetch tells what it is doing: a library does not print, so somebody else draws the bar.

/// Hears how a fetch gets on.
pub trait Progress {
    /// Something begins that will be `bytes` long, if that is known.
    fn begin(&mut self, what: &str, bytes: Option<u64>);
    /// So many more bytes have come.
    fn advance(&mut self, bytes: u64);
    /// What began last is done.
    fn end(&mut self);
    /// Something a user would like to know while waiting.
    fn note(&mut self, text: &str);
}

/// Nobody listens.
impl Progress for () {
    fn begin(&mut self, _: &str, _: Option<u64>) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}
    fn note(&mut self, _: &str) {}
}

/// Files below this length come in a moment: nobody waits for them, and nobody needs to hear of them.
const SMALL_BYTES: u64 = 1 << 20;

/// Whether a file of this length, as far as it is known, is not worth a line of its own.
#[must_use]
pub fn is_small(bytes: Option<u64>) -> bool {
    bytes.is_some_and(|bytes| bytes < SMALL_BYTES)
}

/// Tells the log: one line when a large file begins, and one for each tenth of it.
#[derive(Debug, Default)]
pub struct LogProgress {
    what: String,
    bytes: Option<u64>,
    done: u64,
    tenths: u64,
}

impl Progress for LogProgress {
    fn begin(&mut self, what: &str, bytes: Option<u64>) {
        *self = Self {
            what: what.to_owned(),
            bytes,
            ..Self::default()
        };
        match is_small(bytes) {
            true => tracing::debug!(file = what, bytes, "downloading"),
            false => tracing::info!(file = what, bytes, "downloading"),
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        let Some(all) = self.bytes.filter(|_| !is_small(self.bytes)) else {
            return;
        };
        let tenths = (self.done * 10 / all).min(10);
        if tenths > self.tenths {
            self.tenths = tenths;
            tracing::info!(file = self.what, percent = tenths * 10, "downloading");
        }
    }

    fn end(&mut self) {
        tracing::debug!(file = self.what, bytes = self.done, "downloaded");
    }

    fn note(&mut self, text: &str) {
        tracing::info!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is logged, as text.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines at level INFO that a file of this length leaves in the log.
    fn lines(bytes: u64) -> Vec<String> {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(move || to.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            let mut progress = LogProgress::default();
            progress.begin("file", Some(bytes));
            for _ in 0..4 {
                progress.advance(bytes / 4);
            }
            progress.end();
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn small_files_leave_no_line_in_the_log() {
        assert_eq!(lines(0), [""; 0]);
        assert_eq!(lines(300), [""; 0]);
    }

    #[test]
    fn a_large_file_leaves_a_line_for_each_tenth_at_most() {
        let found = lines(8 << 20);
        let percents = found.iter().filter(|line| line.contains("percent="));
        assert_eq!(percents.count(), 4, "{found:?}");
        assert_eq!(found.len(), 5, "{found:?}");
    }
}
