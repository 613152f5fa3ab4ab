//! The spans that have ended and wait for their export, as bytes of the message that they are exported in.
//!
//! The thread that ends a span encodes it. It would otherwise allocate what the exporting thread frees, which costs a thread that
//! serves requests more than encoding does. A span that finds no room is dropped and counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow_metrics::Counter;
use flow_trace::SpanData;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::batches::send;
use crate::delivery::{Delivery, LAST_EXPORT_MAX};
use crate::resource;
use crate::settings::BatchSettings;
use crate::span_message;

/// The numbers of fields of messages of OTLP.
mod field {
    pub(super) const RESOURCE_SPANS_OF_REQUEST: u32 = 1;
    pub(super) const SCOPE_SPANS_OF_RESOURCE_SPANS: u32 = 2;
    pub(super) const SPANS_OF_SCOPE_SPANS: u32 = 2;
}

/// Spans that are exported at once, as the field `spans` of a message.
#[derive(Debug, Default)]
struct SpanBatch {
    bytes: Vec<u8>,
    count: usize,
}

/// The spans that wait.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    waiting: Mutex<Waiting>,
    /// Notified when the first span arrives, and when a batch is full.
    arrived: Notify,
    settings: BatchSettings,
    /// Counts the spans that found no room.
    dropped: Counter,
    /// The process whose spans are exported. A fork has no exporter, and may have been made while the lock was held.
    process: u32,
}

/// Batches, of which only the last one may have room.
#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<SpanBatch>,
    count: usize,
}

impl SpanQueue {
    pub(crate) fn new(settings: BatchSettings, dropped: Counter) -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            settings,
            dropped,
            process: std::process::id(),
        }
    }

    /// Adds a span, or drops and counts it. It is encoded under the lock, into the batch.
    pub(crate) fn push(&self, span: &SpanData) {
        if std::process::id() != self.process {
            return;
        }
        let mut waiting = self.lock();
        if waiting.count == self.settings.queue_max {
            self.dropped.add(1);
            return;
        }
        let batch = waiting.last(self.settings.batch_max);
        span_message::put(field::SPANS_OF_SCOPE_SPANS, span, &mut batch.bytes);
        batch.count += 1;
        let is_full = batch.count == self.settings.batch_max;
        waiting.count += 1;
        if waiting.count == 1 || is_full {
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// The next batch: a full one, or what there is when the delay has passed since this function saw the first span of it; all
    /// batches one after another when the process ends, and then an empty one.
    async fn next(&self, stop: &CancellationToken) -> SpanBatch {
        let mut due = None;
        loop {
            let arrived = self.arrived.notified();
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if let Some(batch) = self
                .lock()
                .take(self.settings.batch_max, is_due || stop.is_cancelled())
            {
                return batch;
            }
            if stop.is_cancelled() {
                return SpanBatch::default();
            }
            if due.is_none() && !self.is_empty() {
                due = Some(Instant::now() + self.settings.delay);
            }
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = arrived => {}
                () = wait => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().count == 0
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The batch for the next span.
    fn last(&mut self, batch_max: usize) -> &mut SpanBatch {
        let bytes = match self.batches.back() {
            Some(last) if last.count < batch_max => None,
            // The next batch is likely as large.
            last => Some(last.map_or(0, |it| it.bytes.len())),
        };
        if let Some(bytes) = bytes {
            self.batches.push_back(SpanBatch {
                bytes: Vec::with_capacity(bytes),
                count: 0,
            });
        }
        self.batches.back_mut().expect("there is one now")
    }

    /// The first batch, if it is full or need not be.
    fn take(&mut self, batch_max: usize, whole: bool) -> Option<SpanBatch> {
        let first = self.batches.front()?;
        if first.count < batch_max && !whole {
            return None;
        }
        self.count -= first.count;
        self.batches.pop_front()
    }
}

/// Exports the spans of a queue.
#[derive(Debug)]
pub(crate) struct SpanExport {
    pub(crate) queue: Arc<SpanQueue>,
    pub(crate) delivery: Delivery,
    pub(crate) envelope: SpanEnvelope,
}

impl SpanExport {
    /// Sends batches until the process ends, and then what waits.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let limit = self.queue.settings.timeout;
        let mut end = None;
        loop {
            let batch = self.queue.next(&stop).await;
            if batch.count == 0 {
                return;
            }
            let message = self.envelope.wrap(&batch.bytes);
            if stop.is_cancelled() {
                // All that waits has this time. What does not get there fails at once, and is counted.
                let end = *end.get_or_insert_with(|| Instant::now() + LAST_EXPORT_MAX);
                let limit = limit.min(end.saturating_duration_since(Instant::now()));
                self.delivery.send(&message, batch.count, limit).await;
            } else if send(&mut self.delivery, (&message, batch.count, limit), &stop).await {
                return;
            }
        }
    }
}

/// What is around spans in a request: the process, and the name of the instrumentation.
#[derive(Debug)]
pub(crate) struct SpanEnvelope {
    /// A `ResourceSpans` without spans.
    resource: Vec<u8>,
    /// A `ScopeSpans` without spans.
    scope: Vec<u8>,
}

impl SpanEnvelope {
    pub(crate) fn new(resource: &ResourceAttributesWithSchema) -> Self {
        let scope = ScopeSpans {
            scope: Some(InstrumentationScope {
                name: flow_trace::SCOPE.to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let resource = ResourceSpans {
            resource: Some(resource::message(resource)),
            schema_url: resource.schema_url.clone().unwrap_or_default(),
            ..Default::default()
        };
        Self {
            resource: resource.encode_to_vec(),
            scope: scope.encode_to_vec(),
        }
    }

    /// An `ExportTraceServiceRequest` with these spans. Fields of a message may come in any order.
    fn wrap(&self, spans: &[u8]) -> Vec<u8> {
        let mut of_resource =
            Vec::with_capacity(self.resource.len() + self.scope.len() + spans.len() + 16);
        of_resource.extend_from_slice(&self.resource);
        put_head(
            field::SCOPE_SPANS_OF_RESOURCE_SPANS,
            self.scope.len() + spans.len(),
            &mut of_resource,
        );
        of_resource.extend_from_slice(&self.scope);
        of_resource.extend_from_slice(spans);
        let mut request = Vec::with_capacity(of_resource.len() + 8);
        put_head(
            field::RESOURCE_SPANS_OF_REQUEST,
            of_resource.len(),
            &mut request,
        );
        request.append(&mut of_resource);
        request
    }
}

/// Writes what comes before the bytes of a message in a field.
fn put_head(field: u32, len: usize, to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(len as u64, to);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flow_trace::{Sampling, Tracer};
    use opentelemetry::KeyValue;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_sdk::Resource;

    use super::*;

    const SETTINGS: BatchSettings = BatchSettings {
        queue_max: 5,
        batch_max: 2,
        delay: Duration::from_secs(5),
        timeout: Duration::from_secs(1),
    };

    fn queue() -> (Arc<SpanQueue>, Counter, Tracer) {
        let dropped = Counter::default();
        let queue = Arc::new(SpanQueue::new(SETTINGS, dropped.clone()));
        let every = Sampling {
            ratio: 1.0,
            follows_parent: true,
        };
        let to = queue.clone();
        let tracer = Tracer::new(every, move |span| to.push(&span));
        (queue, dropped, tracer)
    }

    fn end_spans(tracer: &Tracer, names: &[&str]) {
        for name in names {
            drop(tracer.root(name.to_string()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_leaves_when_it_is_full_or_its_first_span_waited_for_the_delay() {
        let (queue, dropped, tracer) = queue();
        let stop = CancellationToken::new();
        end_spans(&tracer, &["1", "2", "3"]);
        let began = Instant::now();
        assert_eq!(queue.next(&stop).await.count, 2);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(queue.next(&stop).await.count, 1);
        assert!(began.elapsed() >= SETTINGS.delay);
        assert_eq!(dropped.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_exporter_that_waits_is_woken_by_a_full_batch() {
        let (queue, _, tracer) = queue();
        let stop = CancellationToken::new();
        let began = Instant::now();
        let end = async {
            tokio::task::yield_now().await;
            end_spans(&tracer, &["1", "2"]);
        };
        let (batch, ()) = tokio::join!(queue.next(&stop), end);
        assert_eq!((batch.count, began.elapsed()), (2, Duration::ZERO));
    }

    #[tokio::test]
    async fn spans_beyond_the_room_are_dropped_and_the_others_leave_at_the_end() {
        let (queue, dropped, tracer) = queue();
        end_spans(&tracer, &["1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(dropped.get(), 2);
        let stop = CancellationToken::new();
        stop.cancel();
        let mut counts = Vec::new();
        for _ in 0..4 {
            counts.push(queue.next(&stop).await.count);
        }
        assert_eq!(counts, [2, 2, 1, 0]);
        end_spans(&tracer, &["8"]);
        assert_eq!(queue.next(&stop).await.count, 1);
    }

    #[tokio::test]
    async fn a_request_has_the_process_the_instrumentation_and_the_spans() {
        let (queue, _, tracer) = queue();
        let resource = Resource::builder_empty()
            .with_attributes([KeyValue::new("service.name", "encoder")])
            .build();
        let envelope = SpanEnvelope::new(&(&resource).into());
        let mut span = tracer.root("a").unwrap();
        span.set("size", "x".repeat(300));
        drop(span);
        end_spans(&tracer, &["b"]);
        let batch = queue.next(&CancellationToken::new()).await;
        let request = envelope.wrap(&batch.bytes);
        let request = ExportTraceServiceRequest::decode(request.as_slice()).unwrap();
        let [of_resource] = request.resource_spans.as_slice() else {
            panic!("{request:?}");
        };
        let attributes = &of_resource.resource.as_ref().unwrap().attributes;
        assert_eq!(attributes[0].key, "service.name");
        let [of_scope] = of_resource.scope_spans.as_slice() else {
            panic!("{request:?}");
        };
        assert_eq!(of_scope.scope.as_ref().unwrap().name, "flow");
        let names: Vec<&str> = of_scope.spans.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(of_scope.spans[0].attributes[0].key, "size");
    }
}
