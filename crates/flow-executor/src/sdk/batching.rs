//! How documents of several requests share a call, as an executor's author or the flow file chooses.

use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::batching::BatchMetric;

/// How documents of several requests share a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// The size of a batch, in `metric`.
    pub size: NonZeroUsize,
    /// How long the oldest request may wait for others. Zero is best unless a call costs much more than its documents:
    /// requests that arrive while the executor works form the next batch anyway.
    pub wait_max: Duration,
    /// The unit of `size`.
    pub metric: BatchMetric,
    /// How exactly `size` is kept.
    pub fit: Fit,
}

/// How exactly a batch keeps its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fit {
    /// As many whole requests as fit. A request that is larger than `size` goes alone.
    #[default]
    Requests,
    /// Exactly `size`, or what is left. A request may be split, and is answered when its last document is finished.
    /// With weights, a batch ends with the document that reaches `size`.
    Exact,
    /// `size` only triggers the batch, which takes everything that waits.
    All,
}

impl Default for Batching {
    fn default() -> Self {
        // Large enough to use any device fully with short texts, small enough that a call takes well under a second on
        // a CPU.
        let size = NonZeroUsize::new(256).expect("256 is not zero");
        Self {
            size,
            wait_max: Duration::ZERO,
            metric: BatchMetric::Documents,
            fit: Fit::Requests,
        }
    }
}

/// Whether requests to an endpoint share calls, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchRule {
    /// Each request is a call of its own.
    Alone,
    /// Requests that are alike share calls.
    Together(Batching),
}

impl BatchRule {
    pub(crate) fn metric(self) -> BatchMetric {
        match self {
            Self::Alone => BatchMetric::Documents,
            Self::Together(batching) => batching.metric,
        }
    }
}
