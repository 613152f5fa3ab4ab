//! Which requests are recorded.

use opentelemetry_sdk::trace::Sampler;

/// Which requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of requests, from 0 to 1, by the ids of their traces.
    pub ratio: f64,
    /// Whether a request that belongs to a trace is recorded exactly if that trace is.
    pub follows_parent: bool,
}

impl Sampling {
    pub(crate) fn sampler(self) -> Sampler {
        let root = match self.ratio {
            ratio if ratio >= 1.0 => Sampler::AlwaysOn,
            ratio if ratio <= 0.0 => Sampler::AlwaysOff,
            ratio => Sampler::TraceIdRatioBased(ratio),
        };
        match self.follows_parent {
            true => Sampler::ParentBased(Box::new(root)),
            false => root,
        }
    }
}
