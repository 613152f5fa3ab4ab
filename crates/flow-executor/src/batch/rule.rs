//! How documents of several requests share a call: what an executor's author or the flow file chooses.

use std::num::NonZeroUsize;
use std::time::Duration;

/// How documents of several requests share a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// How much goes into one call, counted in `metric`.
    pub size: NonZeroUsize,
    /// How long the oldest request may wait for company. Zero is best unless a call costs much more than
    /// its documents do: while the executor works, the next batch gathers by itself.
    pub wait_max: Duration,
    /// What `size` counts.
    pub metric: Metric,
    /// How exactly `size` is kept.
    pub fit: Fit,
}

/// What the size of a batch counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Documents.
    #[default]
    Documents,
    /// Bytes of the documents' messages.
    Bytes,
    /// The executor's own weight of each document, such as its tokens (`Endpoints::weigh_by`).
    Custom,
}

/// How exactly a batch keeps its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fit {
    /// Whole requests, as many as fit; one that is larger than `size` goes alone.
    #[default]
    Requests,
    /// Exactly `size`, or what is left: a request may be cut, and is answered when its last document is
    /// done. With weights, a batch closes with the document that reaches `size`.
    Exact,
    /// `size` only says when; all that has gathered goes in one call.
    All,
}

impl Default for Batching {
    fn default() -> Self {
        // Large enough to fill any device with short texts, small enough that one call stays well under
        // a second on a CPU.
        let size = NonZeroUsize::new(256).expect("256 is not zero");
        Self {
            size,
            wait_max: Duration::ZERO,
            metric: Metric::Documents,
            fit: Fit::Requests,
        }
    }
}

/// Whether requests to an endpoint share calls, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each request is a call of its own.
    Alone,
    /// Those that are alike share calls.
    Together(Batching),
}

impl Rule {
    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Alone => Metric::Documents,
            Self::Together(batching) => batching.metric,
        }
    }
}
