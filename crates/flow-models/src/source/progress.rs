//! Progress of downloads. Libraries do not print, so the caller decides how to show it.

/// Receives the progress of downloads.
pub trait DownloadProgress {
    /// A download of `bytes` bytes begins. `None` means that its size is unknown.
    fn begin(&mut self, what: &str, bytes: Option<u64>);
    /// Another `bytes` bytes have arrived.
    fn advance(&mut self, bytes: u64);
    /// The current download is complete.
    fn end(&mut self);
    /// A message for a user who waits.
    fn note(&mut self, text: &str);
}

/// Ignores all progress.
impl DownloadProgress for () {
    fn begin(&mut self, _: &str, _: Option<u64>) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}
    fn note(&mut self, _: &str) {}
}

/// Files shorter than this arrive within moments, so they are neither logged nor shown.
const SMALL_BYTES: u64 = 1 << 20;

/// Whether a file of this length is too small to report its download. A file of unknown length is not.
#[must_use]
pub fn is_small(bytes: Option<u64>) -> bool {
    bytes.is_some_and(|bytes| bytes < SMALL_BYTES)
}

/// Logs the start of each large download and each tenth of it.
#[derive(Debug, Default)]
pub struct LogProgress {
    what: String,
    total_bytes: Option<u64>,
    received_bytes: u64,
    tenths: u64,
}

impl DownloadProgress for LogProgress {
    fn begin(&mut self, what: &str, bytes: Option<u64>) {
        *self = Self {
            what: what.to_owned(),
            total_bytes: bytes,
            ..Self::default()
        };
        match is_small(bytes) {
            true => tracing::debug!(file = what, bytes, "downloading"),
            false => tracing::info!(file = what, bytes, "downloading"),
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.received_bytes += bytes;
        let Some(total) = self.total_bytes.filter(|_| !is_small(self.total_bytes)) else {
            return;
        };
        let tenths = (self.received_bytes * 10 / total).min(10);
        if tenths > self.tenths {
            self.tenths = tenths;
            tracing::info!(file = self.what, percent = tenths * 10, "downloading");
        }
    }

    fn end(&mut self) {
        tracing::debug!(file = self.what, bytes = self.received_bytes, "downloaded");
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

    /// Collects the log as text.
    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that the download of a file of this length logs at INFO.
    fn lines(bytes: u64) -> Vec<String> {
        let log = LogBuffer::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone());
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
    fn small_files_are_not_logged() {
        assert_eq!(lines(0), [""; 0]);
        assert_eq!(lines(300), [""; 0]);
    }

    #[test]
    fn a_large_file_is_logged_at_most_once_per_tenth() {
        let found = lines(8 << 20);
        let percents = found.iter().filter(|line| line.contains("percent="));
        assert_eq!(percents.count(), 4, "{found:?}");
        assert_eq!(found.len(), 5, "{found:?}");
    }
}
