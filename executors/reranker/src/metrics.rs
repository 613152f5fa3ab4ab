//! Metrics of each call of the model.

use flow_executor::{BadMetricName, Durations, Monitor, Sizes, add_past_spans};
use flow_models::PairScores;

/// The metrics of a reranker.
#[derive(Debug)]
pub(crate) struct RerankerMetrics {
    tokens: Sizes,
    tokenizing: Durations,
    computing: Durations,
}

impl RerankerMetrics {
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

    /// Counts a call that has just ended.
    pub(crate) fn observe(&self, scored: &PairScores) {
        self.tokens.observe(scored.tokens.iter().sum());
        self.tokenizing.observe(scored.times.tokenizing);
        self.computing.observe(scored.times.computing);
        add_past_spans(&[
            ("tokenize", scored.times.tokenizing),
            ("compute", scored.times.computing),
        ]);
    }
}
