//! The span of a request, and those of the nodes that it runs at.

use std::borrow::Cow;
use std::time::SystemTime;

use flow_core::CallOptions;
use flow_trace::{Span, SpanKind, Tracer};

use crate::request_record::{RequestEnd, RequestRecord};

/// The span of the time that a request waits to be admitted.
const ADMISSION: &str = "admission";

/// The span of a request, if spans are exported.
#[derive(Debug)]
pub(crate) struct RequestSpan(Option<Span>);

impl RequestSpan {
    /// Begins the span of a request. Its calls are made within it from here on.
    pub(crate) fn begin(
        tracer: Option<&Tracer>,
        options: &mut CallOptions,
        record: &mut RequestRecord,
    ) -> Self {
        let Some(tracer) = tracer else {
            return Self(None);
        };
        let now = SystemTime::now();
        let began = now.checked_sub(record.waited).unwrap_or(now);
        let name = options.origin.operation.clone();
        let span = tracer.server(name, options.trace.as_deref(), began);
        if !record.waited.is_zero() {
            drop(tracer.child_since(ADMISSION, SpanKind::Internal, span.context(), began));
        }
        options.trace = Some(span.context().clone());
        record.trace.clone_from(&options.trace);
        Self(Some(span))
    }

    /// Ends the span with all that is known of the request.
    pub(crate) fn end(mut self, record: &RequestRecord, end: Option<&RequestEnd<'_>>) {
        let (Some(span), Some(end)) = (self.0.as_mut().filter(|it| it.is_recorded()), end) else {
            return;
        };
        span.set("flow.request_id", end.header.request_id.as_str());
        span.set("flow.endpoint", end.endpoint());
        span.set("flow.documents", record.documents());
        span.set("flow.bytes", record.bytes);
        set_origin(span, record);
        if let Some(failed) = &end.failed {
            span.fail(failed.code, failed.cause);
            span.set("flow.executor", failed.executor);
        }
    }
}

fn set_origin(span: &mut Span, record: &RequestRecord) {
    let origin = &record.origin;
    if let Some(protocol) = origin.protocol {
        span.set("network.protocol.name", protocol);
    }
    if let Some(client) = origin.client {
        span.set("client.address", client.to_string());
    }
    if let Some(key) = &origin.key {
        span.set("flow.key", &**key);
    }
    match (
        origin.operation.split_once(' '),
        origin.operation.strip_prefix('/'),
    ) {
        (Some((method, route)), _) => {
            span.set("http.request.method", method);
            span.set("http.route", route);
        }
        (None, Some(name)) => {
            let (service, method) = name.split_once('/').unwrap_or((name, ""));
            span.set("rpc.system", "grpc");
            span.set("rpc.service", service);
            span.set("rpc.method", method);
        }
        (None, None) => {}
    }
}

/// The options of a node's calls, and the span that they are made within.
pub(crate) fn node_span<'o>(
    tracer: Option<&Tracer>,
    node: &str,
    options: &'o CallOptions,
) -> (Cow<'o, CallOptions>, Option<Span>) {
    let span = match (tracer, &options.trace) {
        (Some(tracer), Some(trace)) if trace.is_sampled => {
            tracer.child(node.to_owned(), SpanKind::Internal, trace)
        }
        _ => None,
    };
    match span {
        Some(mut span) => {
            span.set("flow.node", node);
            let options = options.within(span.context());
            (Cow::Owned(options), Some(span))
        }
        None => (Cow::Borrowed(options), None),
    }
}
