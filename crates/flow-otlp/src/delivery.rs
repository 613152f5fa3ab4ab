//! Exports one kind of telemetry. Counts what is lost, and logs it at a limited rate.

use std::fmt::Display;
use std::time::Duration;

use flow_core::Chain;
use flow_metrics::Counter;
use tokio::time::Instant;

use crate::client::CollectorClient;

/// How long the last export may take when the process ends.
pub(crate) const LAST_EXPORT_MAX: Duration = Duration::from_secs(2);

/// Time between two lines about telemetry that found no room.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Sends one kind of telemetry to its collector.
#[derive(Debug)]
pub(crate) struct Delivery {
    client: CollectorClient,
    /// What is sent, for the log: `spans`, `metrics` or `log records`.
    what: &'static str,
    /// What was lost: here, or because it found no room in its queue.
    lost: Counter,
    /// The part of it that the log says already.
    reported: u64,
    next_line: Option<Instant>,
    is_failing: bool,
}

impl Delivery {
    pub(crate) fn new(client: CollectorClient, what: &'static str, lost: Counter) -> Self {
        Self {
            client,
            what,
            lost,
            reported: 0,
            next_line: None,
            is_failing: false,
        }
    }

    /// Sends a message with this number of them, within this time.
    pub(crate) async fn send(&mut self, message: &[u8], count: usize, limit: Duration) {
        match self.client.send(message, limit).await {
            Ok(refused) if refused.count == 0 => self.succeeded(),
            Ok(refused) => self.failed(refused.count.min(count), &refused.reason),
            Err(error) => self.failed(count, &Chain(&error)),
        }
    }

    fn failed(&mut self, lost: usize, cause: &dyn Display) {
        self.lost.add(lost);
        if !std::mem::replace(&mut self.is_failing, true) {
            let collector = self.client.endpoint();
            let what = self.what;
            tracing::warn!(
                collector,
                %cause,
                "the collector does not accept {what}; dropping them"
            );
        }
    }

    fn succeeded(&mut self) {
        let lost = self.lost.get();
        let dropped = lost - self.reported;
        let what = self.what;
        if std::mem::take(&mut self.is_failing) {
            let collector = self.client.endpoint();
            tracing::info!(collector, dropped, "the collector accepts {what} again");
            self.reported = lost;
        } else if dropped > 0 && self.next_line.is_none_or(|next| next <= Instant::now()) {
            tracing::warn!(dropped, "the export queue is full; dropped {what}");
            self.reported = lost;
            self.next_line = Some(Instant::now() + LINE_EVERY);
        }
    }
}
