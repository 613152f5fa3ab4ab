//! Counts what goes to the replicas of a node and what comes back: each try, as Jina's gateways do.

use flow_metrics::{Lengths, Seconds, Stopwatch};
use flow_proto::Envelope;
use prost::Message;

use crate::Reply;

/// The numbers of calls, which the pools of a gateway share.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// From the first byte of a request to the last of its reply, or to its failure.
    pub sending: Seconds,
    /// Requests, before they are compressed.
    pub sent: Lengths,
    /// Replies, after that.
    pub received: Lengths,
}

impl Traffic {
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
