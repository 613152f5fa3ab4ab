//! Metrics of requests, calls and documents: under the names of Jina's executors, and flow's own.
//!
//! The label of an endpoint is the one to which its method is bound. Endpoints of the default method have the label
//! `/default`, because clients choose their names and the number of labels must be bounded.

use std::sync::Arc;
use std::time::Duration;

use flow_metrics::{
    Counter, Description, DurationHistogram, DurationSummary, Labels, Metric, Registry,
    SizeHistogram, SizeSummary, Stopwatch, TraceId,
};
use flow_proto::Envelope;
use prost::Message;

use crate::endpoint_table::{EndpointIdx, EndpointTable};
use crate::queue::{LeaveReason, QueueUsage};

/// The metrics of an executor. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ExecutorMetrics(Arc<ProcessMetrics>);

#[derive(Debug, Default)]
struct ProcessMetrics {
    receiving: DurationSummary,
    successful: Counter,
    failed: Counter,
    serializing: DurationHistogram,
    /// By [`EndpointIdx`].
    endpoints: Vec<EndpointMetrics>,
}

#[derive(Debug, Default)]
struct EndpointMetrics {
    calls: DurationSummary,
    documents: Counter,
    received: SizeSummary,
    sent: SizeSummary,
    waited: DurationHistogram,
    call_durations: DurationHistogram,
    batch_documents: SizeHistogram,
    /// By [`LeaveReason`].
    batches: [Counter; LeaveReason::ALL.len()],
}

/// The labels of all metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetricLabels<'a> {
    /// `runtime_name`, the process.
    pub(crate) runtime: &'a str,
    /// `executor`, the executor's type.
    pub(crate) executor: &'a str,
}

impl ExecutorMetrics {
    /// Registers all metrics.
    pub(crate) fn new(
        registry: &Registry,
        labels: MetricLabels<'_>,
        endpoints: &EndpointTable,
    ) -> Self {
        let mut metrics = ProcessMetrics::default();
        let runtime = ("runtime_name", labels.runtime);
        register(registry, &[runtime], metrics.named());
        for (endpoint, _) in endpoints.endpoints() {
            let own = EndpointMetrics::default();
            let executor = ("executor", labels.executor);
            let labels = [("executor_endpoint", endpoint), executor, runtime];
            register(registry, &labels, own.named());
            let labels = [("executor_endpoint", endpoint), runtime];
            own.register_own(registry, &labels);
            metrics.endpoints.push(own);
        }
        Self(Arc::new(metrics))
    }

    /// Registers what is looked up when it is read: how much waits in the queue.
    pub(crate) fn register_queue(registry: &Registry, runtime: &str, usage: QueueUsage) {
        let runtime = runtime.to_owned();
        registry.collect(move |values| {
            let all = [
                (
                    "flow_queue_requests",
                    "Requests that wait for a worker.",
                    usage.requests(),
                ),
                (
                    "flow_queue_bytes",
                    "Bytes of requests that wait or run, in KiB.",
                    usage.bytes(),
                ),
            ];
            for (name, help, value) in all {
                let description = Description { name, help };
                #[allow(
                    clippy::cast_precision_loss,
                    reason = "Prometheus' own numbers are floats"
                )]
                values.gauge(description, &[("runtime_name", &runtime)], value as f64);
            }
        });
    }

    /// Measures a call of the executor's method, for one request or several that share it.
    pub(crate) fn call(&self, endpoint: EndpointIdx, trace: Option<TraceId>) -> Stopwatch {
        let own = &self.0.endpoints[endpoint.0];
        let time = own.calls.start();
        time.into_histogram(&own.call_durations).traced(trace)
    }

    /// Counts a batch that leaves the queue.
    pub(crate) fn batch(&self, endpoint: EndpointIdx, reason: LeaveReason, documents: usize) {
        let own = &self.0.endpoints[endpoint.0];
        own.batches[reason as usize].add(1);
        own.batch_documents.observe(documents);
    }

    /// Counts a request that leaves the queue.
    pub(crate) fn waited(&self, endpoint: EndpointIdx, time: Duration, trace: Option<TraceId>) {
        let own = &self.0.endpoints[endpoint.0];
        own.waited.observe_traced(time, trace);
    }

    /// Measures how long it takes to write the documents of a reply.
    pub(crate) fn serialize(&self) -> Stopwatch {
        self.0.serializing.start()
    }

    /// Begins a request. `endpoint` is `None` if no method answers it.
    pub(crate) fn begin<'r>(
        &self,
        endpoint: Option<EndpointIdx>,
        parts: impl Iterator<Item = &'r Envelope>,
    ) -> RequestInProgress {
        if let Some(EndpointIdx(endpoint)) = endpoint {
            let received = &self.0.endpoints[endpoint].received;
            parts.for_each(|part| received.observe(part.encoded_len()));
        }
        RequestInProgress {
            metrics: self.0.clone(),
            endpoint,
            _time: self.0.receiving.start(),
            succeeded: false,
        }
    }
}

/// A request that has no reply yet. It counts as failed if its caller goes before the reply.
#[derive(Debug)]
pub(crate) struct RequestInProgress {
    metrics: Arc<ProcessMetrics>,
    endpoint: Option<EndpointIdx>,
    _time: Stopwatch,
    succeeded: bool,
}

impl RequestInProgress {
    /// Counts a reply without failure, for a request with this number of documents.
    pub(crate) fn succeeded(mut self, reply: &Envelope, documents: usize) {
        if let Some(EndpointIdx(endpoint)) = self.endpoint {
            let own = &self.metrics.endpoints[endpoint];
            own.documents.add(documents);
            own.sent.observe(reply.encoded_len());
        }
        self.succeeded = true;
    }

    /// Counts a document of a streamed reply; `failed` if it or an earlier one is a failure.
    pub(crate) fn streamed(&mut self, failed: bool) {
        self.succeeded = !failed;
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        match self.succeeded {
            true => self.metrics.successful.add(1),
            false => self.metrics.failed.add(1),
        }
    }
}

type NamedMetric = (&'static str, &'static str, Metric);

fn register<const N: usize>(registry: &Registry, labels: Labels<'_>, metrics: [NamedMetric; N]) {
    for (name, help, handle) in metrics {
        registry.register(Description { name, help }, labels, handle);
    }
}

impl ProcessMetrics {
    fn named(&self) -> [NamedMetric; 4] {
        [
            (
                "jina_receiving_request_seconds",
                "Time between a request and its reply.",
                self.receiving.clone().into(),
            ),
            (
                "jina_successful_requests_total",
                "Requests whose reply has no failure.",
                self.successful.clone().into(),
            ),
            (
                "jina_failed_requests_total",
                "Requests whose reply is a failure, or whose caller has gone.",
                self.failed.clone().into(),
            ),
            (
                "flow_serialize_duration_seconds",
                "Time to write the documents of a reply.",
                self.serializing.clone().into(),
            ),
        ]
    }
}

impl EndpointMetrics {
    fn register_own(&self, registry: &Registry, labels: &[(&str, &str); 2]) {
        register(registry, labels, self.own());
        for (reason, counter) in LeaveReason::ALL.into_iter().zip(&self.batches) {
            let description = Description {
                name: "flow_batches_total",
                help: "Batches of requests that left the queue, by the reason why they did.",
            };
            let [endpoint, runtime] = *labels;
            let labels = [endpoint, ("reason", reason.as_str()), runtime];
            registry.register(description, &labels, counter.clone());
        }
    }

    fn own(&self) -> [NamedMetric; 3] {
        [
            (
                "flow_queue_duration_seconds",
                "Time that requests waited for a worker.",
                self.waited.clone().into(),
            ),
            (
                "flow_batch_documents",
                "Documents of the requests that left the queue together.",
                self.batch_documents.clone().into(),
            ),
            (
                "flow_call_duration_seconds",
                "Time of each call of a method; requests that share a call count once.",
                self.call_durations.clone().into(),
            ),
        ]
    }

    fn named(&self) -> [NamedMetric; 5] {
        [
            (
                "jina_process_request_seconds",
                "Time in the executor's method; requests that share a call count once.",
                self.calls.clone().into(),
            ),
            (
                "jina_document_processed_total",
                "Documents of requests whose reply has no failure.",
                self.documents.clone().into(),
            ),
            (
                "jina_received_request_bytes",
                "Size of requests.",
                self.received.clone().into(),
            ),
            (
                "jina_request_size_bytes",
                "Former name of jina_received_request_bytes.",
                self.received.clone().into(),
            ),
            (
                "jina_sent_response_bytes",
                "Size of replies without failure.",
                self.sent.clone().into(),
            ),
        ]
    }
}
