//! The spans of one request in the executor: its time in the queue, and its part of a call.

use std::sync::Arc;

use flow_core::{Failure, TraceContext};
use flow_trace::{Span, SpanKind, Tracer};

use super::timing::{Stage, Timing};
use crate::sdk::{EnteredSpan, SpanParent, StageCollector};

/// The span of the time that a request waits for a worker.
const QUEUE: &str = "queue";

/// A request whose spans are recorded.
#[derive(Debug)]
pub(crate) struct CallTrace {
    tracer: Tracer,
    /// The span of the request.
    request: Arc<TraceContext>,
    /// Its time in the queue; `None` once a worker has it.
    queued: Option<Span>,
}

impl CallTrace {
    /// Begins the time in the queue; `None` if the request is not recorded.
    pub(crate) fn begin(tracer: &Tracer, request: &Arc<TraceContext>) -> Option<Self> {
        let queued = tracer.child(QUEUE, SpanKind::Internal, request)?;
        Some(Self {
            tracer: tracer.clone(),
            request: request.clone(),
            queued: Some(queued),
        })
    }

    /// The id of the trace, if it is recorded.
    pub(crate) fn trace_id(&self) -> Option<[u8; 16]> {
        self.request.recorded_id()
    }

    /// The rest of a request that is split, which waits on.
    pub(crate) fn of_rest(&self) -> Option<Self> {
        Self::begin(&self.tracer, &self.request)
    }
}

/// The spans of a call, for one request or several that share it.
#[derive(Debug, Default)]
pub(crate) struct CallSpans {
    /// The shared call, if there are several requests.
    shared: Option<Span>,
    /// The part of each request that is recorded.
    parts: Vec<Span>,
    /// The requests whose callers ask for their times.
    timed: Vec<Timing>,
    /// Collects the stages of the call for them.
    collector: Option<StageCollector>,
    /// The author's spans are within that of the call.
    entered: Option<EnteredSpan>,
}

impl CallSpans {
    /// Begins a call of an endpoint on this thread. Each request has a span of its own, named after the endpoint as in Jina.
    /// If several share the call, there is one for the call as well, within the first of them, and all are linked.
    pub(crate) fn begin<'c>(
        calls: impl ExactSizeIterator<Item = Option<&'c mut CallTrace>>,
        (endpoint, documents): (&str, usize),
    ) -> Self {
        let requests = calls.len();
        let mut spans = Self::default();
        let mut innermost = None;
        for trace in calls.flatten() {
            trace.queued = None;
            let CallTrace {
                tracer, request, ..
            } = trace;
            let own = tracer.child(endpoint.to_owned(), SpanKind::Internal, request);
            let Some(mut own) = own else { continue };
            own.set("flow.call.requests", requests);
            own.set("flow.call.documents", documents);
            if requests > 1 {
                let shared = spans.shared.take();
                let name = || format!("shared call {endpoint}");
                let shared =
                    shared.or_else(|| tracer.child(name(), SpanKind::Internal, own.context()));
                spans.shared = shared.map(|mut shared| {
                    own.link(shared.context());
                    shared.link(own.context());
                    shared
                });
            }
            let of_call = spans.shared.as_ref().unwrap_or(&own);
            let of_call = SpanParent::new(tracer, of_call.context());
            innermost.get_or_insert(of_call);
            spans.parts.push(own);
        }
        spans.entered = innermost.map(EnteredSpan::enter);
        spans
    }

    /// The same spans, with the times of the requests whose callers ask for them.
    pub(crate) fn timed(
        mut self,
        timings: impl Iterator<Item = Timing>,
        shared: (usize, usize),
    ) -> Self {
        self.timed = timings.filter(Timing::is_wanted).collect();
        for timing in &self.timed {
            timing.begin(Stage::Call);
            timing.share(shared);
        }
        self.collector = (!self.timed.is_empty()).then(StageCollector::begin);
        self
    }

    /// Ends the call.
    pub(crate) fn end(mut self, failure: Option<&Failure>) {
        drop(self.entered.take());
        let stages = self.collector.take().map(StageCollector::end);
        for timing in &self.timed {
            timing.add_stages_of_call(stages.as_deref().unwrap_or_default());
            timing.begin(Stage::Encode);
        }
        let Some(failure) = failure else { return };
        for span in self.parts.iter_mut().chain(&mut self.shared) {
            span.fail(failure.code(), failure.message());
        }
    }
}
