//! Metrics of requests, calls and documents, under the names of Jina's executors.
//!
//! The label of an endpoint is the one to which its method is bound. Endpoints of the default method have the label
//! `/default`, because clients choose their names and the number of labels must be bounded.

use std::sync::Arc;

use flow_metrics::{
    Counter, Description, DurationSummary, Labels, Metric, Registry, SizeSummary, Stopwatch,
};
use flow_proto::Envelope;
use prost::Message;

use crate::endpoint_table::{EndpointIdx, EndpointTable};

/// The metrics of an executor. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ExecutorMetrics(Arc<ProcessMetrics>);

#[derive(Debug, Default)]
struct ProcessMetrics {
    receiving: DurationSummary,
    successful: Counter,
    failed: Counter,
    /// By [`EndpointIdx`].
    endpoints: Vec<EndpointMetrics>,
}

#[derive(Debug, Default)]
struct EndpointMetrics {
    calls: DurationSummary,
    documents: Counter,
    received: SizeSummary,
    sent: SizeSummary,
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
            metrics.endpoints.push(own);
        }
        Self(Arc::new(metrics))
    }

    /// Measures a call of the executor's method, for one request or several that share it.
    pub(crate) fn call(&self, endpoint: EndpointIdx) -> Stopwatch {
        self.0.endpoints[endpoint.0].calls.start()
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
    fn named(&self) -> [NamedMetric; 3] {
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
        ]
    }
}

impl EndpointMetrics {
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
