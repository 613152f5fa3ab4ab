//! What is measured of each call of the model.

use flow_executor::{BadMetricName, Durations, Monitor, Sizes};
use flow_models::{EncodeTimes, Vectors};

/// The metrics of an encoder.
#[derive(Debug)]
pub(crate) struct EncoderMetrics {
    tokens: Sizes,
    tokenizing: Durations,
    computing: Durations,
}

impl EncoderMetrics {
    pub(crate) fn register(monitor: &Monitor) -> Result<Self, BadMetricName> {
        Ok(Self {
            tokens: monitor.sizes(
                "flow_batch_tokens",
                "Tokens that the model read in each call.",
            )?,
            tokenizing: monitor.durations(
                "flow_tokenize_duration_seconds",
                "Time of each call until its first texts were tokens.",
            )?,
            computing: monitor.durations(
                "flow_compute_duration_seconds",
                "Time that the model computed in each call.",
            )?,
        })
    }

    /// Counts a call that gave these vectors.
    pub(crate) fn observe(&self, vectors: &Vectors, times: EncodeTimes) {
        self.tokens.observe(vectors.tokens().iter().sum());
        self.tokenizing.observe(times.tokenizing);
        self.computing.observe(times.computing);
    }
}
