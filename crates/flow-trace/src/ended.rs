//! Passes on spans that end.

use std::fmt;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

/// Calls a function with each span that ends.
pub(crate) struct OnEnd<F>(pub(crate) F);

impl<F: Fn(SpanData) + Send + Sync> SpanProcessor for OnEnd<F> {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        (self.0)(span);
    }

    // Nothing waits here.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl<F> fmt::Debug for OnEnd<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnEnd").finish_non_exhaustive()
    }
}
