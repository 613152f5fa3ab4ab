//! The spans that have ended and wait for their export. A span that finds no room is dropped and counted.

use std::time::Duration;

use flow_metrics::Counter;
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc;

/// The spans of a tracer that have ended.
#[derive(Debug)]
pub struct EndedSpans {
    /// Those that wait, the first one first.
    pub waiting: mpsc::Receiver<SpanData>,
    /// Counts those that found no room, and those that could not be exported.
    pub dropped: Counter,
}

/// The end of the queue at which spans arrive.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    spans: mpsc::Sender<SpanData>,
    dropped: Counter,
}

/// A queue for this many spans.
pub(crate) fn queue(spans_max: usize) -> (SpanQueue, EndedSpans) {
    let dropped = Counter::default();
    let (spans, waiting) = mpsc::channel(spans_max);
    let queue = SpanQueue {
        spans,
        dropped: dropped.clone(),
    };
    (queue, EndedSpans { waiting, dropped })
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
