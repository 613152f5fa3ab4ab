//! Counts requests and calls under the names of Jina's gateways and heads.
//!
//! Heads are part of this process, so their calls are counted here: a request to a node of three shards that
//! all get it is one request received and three sent.

use std::sync::Arc;
use std::time::Instant;

use flow_metrics::{Counter, Gauge, Handle, Lengths, Metrics, Seconds, Title};
use flow_net::Traffic;
use flow_proto::Envelope;
use prost::Message;

use crate::reply::refusal;

/// What Jina calls the process: there is one gateway.
const RUNTIME: &str = "gateway/rep-0";

/// The gateway's numbers. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    receiving: Seconds,
    pending: Gauge,
    successful: Counter,
    failed: Counter,
    received: Lengths,
    sent: Lengths,
    traffic: Traffic,
}

impl Meter {
    /// Counts, and shows it there.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let numbers = Numbers::default();
        for (name, help, handle) in numbers.titled() {
            metrics.show(Title { name, help }, &[("runtime_name", RUNTIME)], handle);
        }
        Self(Arc::new(numbers))
    }

    /// For the pools of all nodes.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.0.traffic
    }

    /// A request that was taken in.
    pub(crate) fn begin(&self, request: &impl Message) -> UnderWay {
        self.0.received.observe(request.encoded_len());
        self.0.pending.up();
        UnderWay {
            numbers: self.0.clone(),
            started: Instant::now(),
            succeeded: false,
        }
    }

    /// A request for which there was no room.
    pub(crate) fn refuse(&self, request: &Envelope) {
        drop(self.begin(request));
    }
}

/// A request without a reply. One whose client goes before it comes has failed.
#[derive(Debug)]
pub(crate) struct UnderWay {
    numbers: Arc<Numbers>,
    started: Instant,
    succeeded: bool,
}

impl UnderWay {
    /// This is the reply. As in Jina, times and lengths are those of replies that tell of no failure.
    pub(crate) fn end(mut self, reply: &Envelope) {
        if refusal(reply.header.as_ref()).is_none() {
            self.numbers.receiving.observe(self.started.elapsed());
            self.numbers.sent.observe(reply.encoded_len());
            self.succeeded = true;
        }
    }

    /// A part of the reply has gone out; `failed`: this one or one before it tells of a failure.
    pub(crate) fn streams(&mut self, failed: bool) {
        self.succeeded = !failed;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let numbers = &self.numbers;
        numbers.pending.down();
        match self.succeeded {
            true => numbers.successful.add(1),
            false => numbers.failed.add(1),
        }
    }
}

impl Numbers {
    fn titled(&self) -> [(&'static str, &'static str, Handle); 10] {
        let received = || Handle::from(self.received.clone());
        [
            (
                "jina_receiving_request_seconds",
                "Time between a request and its reply that tells of no failure.",
                self.receiving.clone().into(),
            ),
            (
                "jina_number_of_pending_requests",
                "Requests without a reply.",
                self.pending.clone().into(),
            ),
            (
                "jina_successful_requests_total",
                "Requests whose reply tells of no failure.",
                self.successful.clone().into(),
            ),
            (
                "jina_failed_requests_total",
                "Requests whose reply tells of a failure, or whose client has gone.",
                self.failed.clone().into(),
            ),
            (
                "jina_received_request_bytes",
                "Size of requests of clients.",
                received(),
            ),
            (
                "jina_request_size_bytes",
                "Former name of jina_received_request_bytes.",
                received(),
            ),
            (
                "jina_sent_response_bytes",
                "Size of replies to clients that tell of no failure.",
                self.sent.clone().into(),
            ),
            (
                "jina_sending_request_seconds",
                "Time between a call of an executor and its reply, or its failure.",
                self.traffic.sending.clone().into(),
            ),
            (
                "jina_sent_request_bytes",
                "Size of requests to executors.",
                self.traffic.sent.clone().into(),
            ),
            (
                "jina_received_response_bytes",
                "Size of replies of executors.",
                self.traffic.received.clone().into(),
            ),
        ]
    }
}
