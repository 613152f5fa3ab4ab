//! The spans that have ended and wait for their export. A span that finds no room is dropped and counted.

use std::time::Duration;

use flow_metrics::Counter;
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc;

/// The end of the queue at which spans arrive.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    pub(crate) spans: mpsc::Sender<SpanData>,
    pub(crate) dropped: Counter,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.dropped.add(1);
        }
    }

    // The thread that exports ends with the process, and exports what waits.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}
