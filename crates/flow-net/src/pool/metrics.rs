//! Counts the calls that go to the replicas of a node. Each try counts, as in Jina's gateways.

use flow_metrics::{Counter, DurationSummary, SizeSummary, Stopwatch};
use flow_proto::Envelope;
use prost::Message;

use crate::Reply;

/// Metrics of calls. The pools of a gateway share those of all calls, and each node has the others by itself.
#[derive(Debug, Clone, Default)]
pub struct CallMetrics {
    /// Time from the first byte of a request to the last of its reply, or to its failure.
    pub sending: DurationSummary,
    /// Sizes of requests, before they are compressed.
    pub sent: SizeSummary,
    /// Sizes of replies, after they are decompressed.
    pub received: SizeSummary,
    /// Tries that failed and were followed by another one.
    pub retries: Counter,
    /// Requests that were sent to a second replica while the first had not answered.
    pub hedges: Counter,
    /// Those of them that the second replica answered first.
    pub hedges_won: Counter,
    /// How often a replica could not be reached, and was avoided from then on.
    pub ejections: Counter,
}

impl CallMetrics {
    /// The metrics of another node, which shares those of all calls.
    #[must_use]
    pub fn of_node(&self) -> Self {
        Self {
            retries: Counter::default(),
            hedges: Counter::default(),
            hedges_won: Counter::default(),
            ejections: Counter::default(),
            ..self.clone()
        }
    }

    pub(super) fn begin(&self, parts: &[Envelope]) -> Stopwatch {
        for part in parts {
            self.sent.observe(part.encoded_len());
        }
        self.sending.start()
    }

    pub(super) fn end(&self, reply: &Reply) {
        self.received.observe(reply.envelope.encoded_len());
    }
}
