//! Registry of requests and calls, under the names of Jina's gateways and heads.
//!
//! The work of Jina's heads is done in this process, so their calls are counted here: a request to a node with
//! three shards that all get it is one request received and three sent.

use std::sync::Arc;
use std::time::Instant;

use flow_metrics::{Counter, Description, DurationSummary, Gauge, Metric, Registry, SizeSummary};
use flow_net::CallMetrics;
use flow_proto::Envelope;
use prost::Message;

use crate::reply::error_status;

/// The name of this process in metrics and traces, as in Jina; a flow has one gateway.
pub const RUNTIME: &str = "gateway/rep-0";

/// The metrics of a gateway. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct GatewayMetrics(Arc<Values>);

#[derive(Debug, Default)]
struct Values {
    receiving: DurationSummary,
    pending: Gauge,
    successful: Counter,
    failed: Counter,
    received: SizeSummary,
    sent: SizeSummary,
    calls: CallMetrics,
}

impl GatewayMetrics {
    /// New metrics, registered there.
    pub(crate) fn new(registry: &Registry) -> Self {
        let values = Values::default();
        for (name, help, metric) in values.described() {
            let description = Description { name, help };
            registry.register(description, &[("runtime_name", RUNTIME)], metric);
        }
        Self(Arc::new(values))
    }

    /// The metrics of calls, which the pools of all nodes share.
    pub(crate) fn calls(&self) -> &CallMetrics {
        &self.0.calls
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&self, request: &impl Message) -> RequestTimer {
        self.0.received.observe(request.encoded_len());
        self.0.pending.increment();
        RequestTimer {
            values: self.0.clone(),
            started: Instant::now(),
            succeeded: false,
        }
    }

    /// Counts a request that was refused.
    pub(crate) fn refuse(&self, request: &impl Message) {
        drop(self.begin(request));
    }
}

/// A request in progress. If it is dropped before its reply, the client has gone, and the request counts as failed.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    values: Arc<Values>,
    started: Instant,
    succeeded: bool,
}

impl RequestTimer {
    /// Counts the reply. As in Jina, times and sizes are those of successful replies.
    pub(crate) fn end(mut self, reply: &Envelope) {
        if error_status(reply.header.as_ref()).is_none() {
            self.values.receiving.observe(self.started.elapsed());
            self.values.sent.observe(reply.encoded_len());
            self.succeeded = true;
        }
    }

    /// Counts a part of a streamed reply; `failed` says that this part or an earlier one reports a failure.
    pub(crate) fn streamed(&mut self, failed: bool) {
        self.succeeded = !failed;
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        let values = &self.values;
        values.pending.decrement();
        match self.succeeded {
            true => values.successful.add(1),
            false => values.failed.add(1),
        }
    }
}

impl Values {
    fn described(&self) -> [(&'static str, &'static str, Metric); 10] {
        let received = || Metric::from(self.received.clone());
        [
            (
                "jina_receiving_request_seconds",
                "Time between a request and its successful reply.",
                self.receiving.clone().into(),
            ),
            (
                "jina_number_of_pending_requests",
                "Requests without a reply.",
                self.pending.clone().into(),
            ),
            (
                "jina_successful_requests_total",
                "Requests with a successful reply.",
                self.successful.clone().into(),
            ),
            (
                "jina_failed_requests_total",
                "Requests whose reply reports a failure, or whose client has gone.",
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
                "Size of successful replies to clients.",
                self.sent.clone().into(),
            ),
            (
                "jina_sending_request_seconds",
                "Time between a call of an executor and its reply or failure.",
                self.calls.sending.clone().into(),
            ),
            (
                "jina_sent_request_bytes",
                "Size of requests to executors.",
                self.calls.sent.clone().into(),
            ),
            (
                "jina_received_response_bytes",
                "Size of replies of executors.",
                self.calls.received.clone().into(),
            ),
        ]
    }
}
