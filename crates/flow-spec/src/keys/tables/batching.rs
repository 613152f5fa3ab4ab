//! The keys of one rule of dynamic batching.

use std::num::NonZeroUsize;

use super::unsupported::OWN;
use crate::forms;
use crate::keys::{Key, Mapping, Options as _, options, refused, row};
use crate::values::BatchMetric;

options! {
    /// One rule of dynamic batching.
    struct BatchingOptions, BatchingTable BATCHING {
        preferred_batch_size: NonZeroUsize = row(
            forms::BATCH_SIZE,
            "Size of a batch, counted in `metric`.",
        )
            .default("`4`")
            .example("64");
        timeout: u64 = row(
            forms::BATCH_TIMEOUT,
            "How long the oldest document waits for others.",
        )
            .default("`10s`")
            .example("100ms")
            .jina("milliseconds only");
        flush_all: bool = row(
            forms::FLAG,
            "A full batch takes everything that has gathered, even if it is more than the size.",
        )
            .default("`false`")
            .example("true");
        use_custom_metric: bool = row(
            forms::FLAG,
            "Sizes are the weights that the executor gives documents; the same as `metric: custom`.",
        )
            .default("`false`")
            .example("true");
        metric: BatchMetric = row(forms::BATCH_METRIC, "What sizes count.")
            .default("`documents`")
            .example("bytes")
            .jina(OWN);
        use_dynamic_batching: bool = row(forms::FLAG, "Whether the rule applies.")
            .default("`true`")
            .example("false");
    }
}

pub(crate) const BATCHING_UNSUPPORTED: &[&Key] = &[&refused(
    "custom_metric",
    &[],
    "it names a function of Python; `metric: custom` asks the executor",
)];

/// Keys of one rule of `uses_dynamic_batching`.
pub(crate) static BATCHING_MAPPING: Mapping = Mapping {
    what: "an option of dynamic batching",
    tables: &[BatchingOptions::KEYS, BATCHING_UNSUPPORTED],
};
