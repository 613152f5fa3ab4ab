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

/// Tells the log: one line for what begins and one for each tenth of it.
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
        tracing::info!(what, bytes, "fetching");
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        let Some(all) = self.bytes.filter(|&all| all > 0) else {
            return;
        };
        let tenths = (self.done * 10 / all).min(10);
        if tenths > self.tenths {
            self.tenths = tenths;
            tracing::info!(what = self.what, percent = tenths * 10, "fetching");
        }
    }

    fn end(&mut self) {
        tracing::debug!(what = self.what, bytes = self.done, "fetched");
    }

    fn note(&mut self, text: &str) {
        tracing::info!("{text}");
    }
}
