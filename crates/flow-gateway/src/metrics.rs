//! Metrics of requests and calls: under the names of Jina's gateways and heads, and flow's own.
//!
//! The work of Jina's heads is done in this process, so their calls are counted here: a request to a node with
//! three shards that all get it is one request received and three sent. What need not be counted, because it can be looked
//! up, is in `state_metrics.rs`.

mod api;
mod durations;
mod nodes;
mod refusals;
mod runtime;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{Code, Origin, TraceContext};
use flow_metrics::{
    Counter, Description, DurationHistogram, DurationSummary, Gauge, Metric, Registry, SizeSummary,
    TraceId,
};
use flow_net::CallMetrics;
use flow_proto::Envelope;
use prost::Message;

use self::api::Api;
use self::durations::{EndpointDurations, RequestDurations};
use self::nodes::AllNodes;
use self::refusals::Refusals;

pub(crate) use self::nodes::NodeMetrics;
pub(crate) use self::refusals::RefusalReason;
pub use self::runtime::RUNTIME;

/// The metrics of a gateway. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct GatewayMetrics(Arc<Values>);

#[derive(Debug)]
struct Values {
    registry: Registry,
    receiving: DurationSummary,
    pending: Gauge,
    successful: Counter,
    failed: Counter,
    received: SizeSummary,
    sent: SizeSummary,
    calls: CallMetrics,
    /// How long requests waited to be admitted.
    waited: DurationHistogram,
    durations: RequestDurations,
    nodes: AllNodes,
    refusals: Refusals,
}

/// What is known of a request that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'r> {
    pub(crate) origin: &'r Origin,
    /// Empty for the default one.
    pub(crate) endpoint: &'r str,
    /// How long it waited to be admitted; `None` if it was refused.
    pub(crate) waited: Option<Duration>,
}

impl GatewayMetrics {
    /// New metrics, registered there.
    pub(crate) fn new(registry: &Registry) -> Self {
        let values = Values {
            registry: registry.clone(),
            receiving: DurationSummary::default(),
            pending: Gauge::default(),
            successful: Counter::default(),
            failed: Counter::default(),
            received: SizeSummary::default(),
            sent: SizeSummary::default(),
            calls: CallMetrics::default(),
            waited: DurationHistogram::default(),
            durations: RequestDurations::new(registry),
            nodes: AllNodes::default(),
            refusals: Refusals::new(registry),
        };
        for (name, help, metric) in values.described() {
            let description = Description { name, help };
            registry.register(description, &[("runtime_name", RUNTIME)], metric);
        }
        Self(Arc::new(values))
    }

    /// Where the metrics are registered.
    pub(crate) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The metrics of a node.
    pub(crate) fn node(&self, name: &str) -> NodeMetrics {
        let Values {
            nodes,
            calls,
            registry,
            ..
        } = &*self.0;
        nodes.of(name, calls, registry)
    }

    /// Counts a request that begins. `knows` says whether an executor offers an endpoint.
    pub(crate) fn begin(
        &self,
        request: &impl Message,
        arrival: Arrival<'_>,
        knows: impl FnOnce(&str) -> bool,
    ) -> RequestTimer {
        let values = &self.0;
        values.received.observe(request.encoded_len());
        values.pending.increment();
        if let Some(waited) = arrival.waited {
            values.waited.observe(waited);
        }
        let api = Api::of(arrival.origin);
        RequestTimer {
            values: values.clone(),
            durations: values.durations.of(api, arrival.endpoint, knows),
            started: Instant::now(),
            waited: arrival.waited.unwrap_or_default(),
            outcome: Some(Code::Cancelled),
            trace: None,
        }
    }

    /// Counts a request that is refused by the gateway itself.
    pub(crate) fn refuse(&self, reason: RefusalReason) {
        self.0.refusals.count(reason);
    }
}

/// A request in progress. If it is dropped before its reply, the client has gone, and the request counts as failed.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    values: Arc<Values>,
    durations: Arc<EndpointDurations>,
    started: Instant,
    /// Before it started.
    waited: Duration,
    /// `None` if it has succeeded.
    outcome: Option<Code>,
    /// Of a request that is recorded.
    trace: Option<TraceId>,
}

impl RequestTimer {
    /// The same request, which belongs to this trace.
    pub(crate) fn trace(&mut self, trace: Option<&TraceContext>) {
        self.trace = trace.and_then(TraceContext::recorded_id);
    }

    /// Counts the reply. As in Jina, Jina's own times and sizes are those of successful replies.
    pub(crate) fn end(mut self, reply: &Envelope, failed: Option<Code>) {
        self.outcome = failed;
        if failed.is_none() {
            self.values.receiving.observe(self.started.elapsed());
            self.values.sent.observe(reply.encoded_len());
        }
    }

    /// Notes how a request ends that has no such reply, if it ends now: a part of a streamed reply, or a failure.
    pub(crate) fn ends_with(&mut self, failed: Option<Code>) {
        self.outcome = failed;
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        let values = &self.values;
        values.pending.decrement();
        match self.outcome {
            None => values.successful.add(1),
            Some(_) => values.failed.add(1),
        }
        let took = self.waited + self.started.elapsed();
        self.durations.observe(self.outcome, took, self.trace);
    }
}

impl Values {
    fn described(&self) -> [(&'static str, &'static str, Metric); 11] {
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
            (
                "flow_request_queue_duration_seconds",
                "Time that requests waited for a permit (`in_flight_max`).",
                self.waited.clone().into(),
            ),
        ]
    }
}
