//! Metrics of each call of a model.

use flow_executor::{BadMetricName, Durations, Monitor, Sizes, add_past_spans};
use flow_models::EncodeTimes;

/// The metrics of an executor that runs a model.
#[derive(Debug)]
pub struct ModelMetrics {
    tokens: Sizes,
    tokenizing: Durations,
    computing: Durations,
}

impl ModelMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    ///
    /// If the executor has metrics of these names already.
    pub fn register(monitor: &Monitor) -> Result<Self, BadMetricName> {
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

    /// Counts a call that has just ended, and adds its stages to its trace.
    pub fn observe(&self, tokens: usize, times: EncodeTimes) {
        self.tokens.observe(tokens);
        self.tokenizing.observe(times.tokenizing);
        self.computing.observe(times.computing);
        add_past_spans(&[("tokenize", times.tokenizing), ("compute", times.computing)]);
    }
}
