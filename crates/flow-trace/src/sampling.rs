//! Which requests are recorded.
//!
//! This is decided before a span is made: most requests are not recorded in most settings, and making a span that is not
//! recorded would be most of what they pay for traces.

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

/// How many traces the ratio 1 would record: ids are compared by 63 of their bits.
const ALL: u64 = 1 << 63;

/// Which requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of requests, from 0 to 1, by the ids of their traces.
    pub ratio: f64,
    /// Whether a request that belongs to a trace is recorded exactly if that trace is.
    pub follows_parent: bool,
}

/// The traces that are recorded, by their ids: the same ones in every process with the same ratio, as in OpenTelemetry's
/// `TraceIdRatioBased`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedTraces {
    /// Ids whose [`key`] is below are recorded.
    below: u64,
}

impl RecordedTraces {
    pub(crate) fn new(ratio: f64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a ratio from 0 to 1 of 2^63"
        )]
        let below = (ratio.clamp(0.0, 1.0) * ALL as f64) as u64;
        Self { below }
    }

    pub(crate) fn contain(self, trace_id: [u8; 16]) -> bool {
        key(trace_id) < self.below
    }
}

/// The bits of an id that decide.
fn key(trace_id: [u8; 16]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = trace_id;
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1
}

/// Makes the ids of spans, and those of traces that are recorded.
#[derive(Debug)]
pub(crate) struct RecordedIds {
    random: RandomIdGenerator,
    traces: RecordedTraces,
}

impl RecordedIds {
    pub(crate) fn new(traces: RecordedTraces) -> Self {
        Self {
            random: RandomIdGenerator::default(),
            traces,
        }
    }
}

impl IdGenerator for RecordedIds {
    /// An id that is recorded. It is asked for only if some are.
    fn new_trace_id(&self) -> TraceId {
        let id = self.random.new_trace_id().to_bytes();
        let key = key(id) % self.traces.below.max(1);
        let low = key << 1 | u64::from(id[15] & 1);
        let [high @ .., _, _, _, _, _, _, _, _] = id;
        let id = u128::from(u64::from_be_bytes(high)) << 64 | u128::from(low);
        TraceId::from(id)
    }

    fn new_span_id(&self) -> SpanId {
        self.random.new_span_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_recorded_traces_are_recorded_and_differ() {
        for ratio in [1.0, 0.1, 1e-6] {
            let traces = RecordedTraces::new(ratio);
            let ids = RecordedIds::new(traces);
            let (first, second) = (ids.new_trace_id(), ids.new_trace_id());
            assert!(traces.contain(first.to_bytes()), "{ratio}: {first}");
            assert_ne!(first, second);
        }
    }

    #[test]
    fn a_tenth_of_all_traces_is_recorded_at_the_ratio_of_a_tenth() {
        let (random, traces) = (RandomIdGenerator::default(), RecordedTraces::new(0.1));
        let ids = std::iter::repeat_with(|| random.new_trace_id().to_bytes());
        let recorded = ids.take(10_000).filter(|&id| traces.contain(id)).count();
        assert!((800..1200).contains(&recorded), "{recorded}");
    }

    #[test]
    fn the_ratios_0_and_1_record_none_and_all() {
        for id in [[0; 16], [255; 16]] {
            assert!(!RecordedTraces::new(0.0).contain(id));
            assert!(RecordedTraces::new(1.0).contain(id));
        }
    }
}
