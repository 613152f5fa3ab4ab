//! Registry of the calls that go to the replicas of a node. Each try counts, as in Jina's gateways.

use flow_metrics::{DurationSummary, SizeSummary, Stopwatch};
use flow_proto::Envelope;
use prost::Message;

use crate::Reply;

/// Registry of calls, which the pools of a gateway share.
#[derive(Debug, Clone, Default)]
pub struct CallMetrics {
    /// Time from the first byte of a request to the last of its reply, or to its failure.
    pub sending: DurationSummary,
    /// Sizes of requests, before they are compressed.
    pub sent: SizeSummary,
    /// Sizes of replies, after they are decompressed.
    pub received: SizeSummary,
}

impl CallMetrics {
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
