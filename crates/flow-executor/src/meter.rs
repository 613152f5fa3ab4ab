//! Counts requests, calls and documents under the names of Jina's executors.
//!
//! An endpoint is counted by the name under which its method was bound. One that the default method answers is
//! counted as `/default`, for its own name is the client's to choose, and names would never end.

use std::sync::Arc;

use flow_metrics::{
    Counter, Description, DurationSummary, Labels, Metric, Registry, SizeSummary, Stopwatch,
};
use flow_proto::Envelope;
use prost::Message;

use crate::directory::{Directory, EndpointIdx};

/// An executor's numbers. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    receiving: DurationSummary,
    successful: Counter,
    failed: Counter,
    /// By [`EndpointIdx`].
    endpoints: Vec<OfEndpoint>,
}

#[derive(Debug, Default)]
struct OfEndpoint {
    calls: DurationSummary,
    documents: Counter,
    received: SizeSummary,
    sent: SizeSummary,
}

/// Whose numbers they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose<'a> {
    /// What Jina calls the process.
    pub(crate) runtime: &'a str,
    /// What Jina calls the executor's class.
    pub(crate) executor: &'a str,
}

impl Meter {
    /// Counts, and shows it there.
    pub(crate) fn new(metrics: &Registry, whose: Whose<'_>, directory: &Directory) -> Self {
        let mut numbers = Numbers::default();
        let runtime = ("runtime_name", whose.runtime);
        show(metrics, &[runtime], numbers.titled());
        for (endpoint, _) in directory.endpoints() {
            let own = OfEndpoint::default();
            let executor = ("executor", whose.executor);
            let labels = [("executor_endpoint", endpoint), executor, runtime];
            show(metrics, &labels, own.titled());
            numbers.endpoints.push(own);
        }
        Self(Arc::new(numbers))
    }

    /// A call of the executor's method, for one request or several that share it.
    pub(crate) fn call(&self, endpoint: EndpointIdx) -> Stopwatch {
        self.0.endpoints[endpoint.0].calls.start()
    }

    /// A request that has come; none of the endpoints may answer it.
    pub(crate) fn begin<'r>(
        &self,
        endpoint: Option<EndpointIdx>,
        parts: impl Iterator<Item = &'r Envelope>,
    ) -> UnderWay {
        if let Some(EndpointIdx(endpoint)) = endpoint {
            let received = &self.0.endpoints[endpoint].received;
            parts.for_each(|part| received.observe(part.encoded_len()));
        }
        UnderWay {
            numbers: self.0.clone(),
            endpoint,
            _time: self.0.receiving.start(),
            succeeded: false,
        }
    }
}

/// A request without a reply. One whose caller goes before it comes has failed.
#[derive(Debug)]
pub(crate) struct UnderWay {
    numbers: Arc<Numbers>,
    endpoint: Option<EndpointIdx>,
    _time: Stopwatch,
    succeeded: bool,
}

impl UnderWay {
    /// A reply that tells of no failure, made from so many documents.
    pub(crate) fn succeeded(mut self, reply: &Envelope, documents: usize) {
        if let Some(EndpointIdx(endpoint)) = self.endpoint {
            let own = &self.numbers.endpoints[endpoint];
            own.documents.add(documents);
            own.sent.observe(reply.encoded_len());
        }
        self.succeeded = true;
    }

    /// A document of the reply has gone out; `failed`: in its place, or before it, stands a failure.
    pub(crate) fn streams(&mut self, failed: bool) {
        self.succeeded = !failed;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        match self.succeeded {
            true => self.numbers.successful.add(1),
            false => self.numbers.failed.add(1),
        }
    }
}

type Titled = (&'static str, &'static str, Metric);

fn show<const N: usize>(metrics: &Registry, labels: Labels<'_>, titled: [Titled; N]) {
    for (name, help, handle) in titled {
        metrics.register(Description { name, help }, labels, handle);
    }
}

impl Numbers {
    fn titled(&self) -> [Titled; 3] {
        [
            (
                "jina_receiving_request_seconds",
                "Time between a request and its reply.",
                self.receiving.clone().into(),
            ),
            (
                "jina_successful_requests_total",
                "Requests whose reply tells of no failure.",
                self.successful.clone().into(),
            ),
            (
                "jina_failed_requests_total",
                "Requests whose reply tells of a failure, or whose caller has gone.",
                self.failed.clone().into(),
            ),
        ]
    }
}

impl OfEndpoint {
    fn titled(&self) -> [Titled; 5] {
        [
            (
                "jina_process_request_seconds",
                "Time in the executor's method; requests that share a call are one.",
                self.calls.clone().into(),
            ),
            (
                "jina_document_processed_total",
                "Documents of requests whose reply tells of no failure.",
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
                "Size of replies that tell of no failure.",
                self.sent.clone().into(),
            ),
        ]
    }
}
