//! Metrics of each call of the model.

use flow_executor::{BadMetricName, Count, Monitor};
use flow_inference::ModelMetrics;
use flow_models::{CacheCounts, EncodeWork};

/// The metrics of an encoder.
#[derive(Debug)]
pub(crate) struct EncoderMetrics {
    calls: ModelMetrics,
    in_memory: Count,
    on_disk: Count,
    computed: Count,
    /// What has been counted.
    counted: CacheCounts,
}

impl EncoderMetrics {
    pub(crate) fn register(monitor: &Monitor) -> Result<Self, BadMetricName> {
        Ok(Self {
            calls: ModelMetrics::register(monitor)?,
            in_memory: monitor.count(
                "flow_cache_memory_texts_total",
                "Texts whose vector was cached in memory.",
            )?,
            on_disk: monitor.count(
                "flow_cache_disk_texts_total",
                "Texts whose vector was cached on disk.",
            )?,
            computed: monitor.count(
                "flow_cache_computed_texts_total",
                "Texts whose vector was not cached.",
            )?,
            counted: CacheCounts::default(),
        })
    }

    /// Counts a call that has just ended: what the model did, if it did anything, and how often vectors have been in the cache, if there is one.
    pub(crate) fn observe(&mut self, work: Option<EncodeWork>, cached: Option<CacheCounts>) {
        if let Some(work) = work {
            self.calls.observe(work.tokens, work.times);
        }
        if let Some(cached) = cached {
            self.in_memory.add(cached.memory - self.counted.memory);
            self.on_disk.add(cached.disk - self.counted.disk);
            self.computed.add(cached.computed - self.counted.computed);
            self.counted = cached;
        }
    }
}
