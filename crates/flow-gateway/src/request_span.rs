//! The span of a request, and those of the nodes that it runs at.

use std::borrow::Cow;
use std::time::SystemTime;

use flow_core::{CallOptions, Code};
use flow_net::status::{GRPC_STATUS, grpc_status};
use flow_trace::{ServerSpan, Span, SpanKind, Tracer};

use crate::http::response_status;
use crate::request_record::{Part, RequestEnd, RequestRecord};

/// The span of the time that a request waits to be admitted.
const ADMISSION: &str = "admission";

/// The span of a piece of a call, within that of the call.
const PIECE: &str = "piece";

/// The stream of gRPC whose messages are requests. Its status is not that of one of them.
const STREAM: &str = "/jina.JinaRPC/Call";

/// The span of a request, if it is recorded.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    span: Option<Span>,
    part: Part,
}

impl RequestSpan {
    /// Begins the span of a request. Its calls are made within it from here on.
    pub(crate) fn begin(
        tracer: Option<&Tracer>,
        options: &mut CallOptions,
        record: &mut RequestRecord,
        part: Part,
    ) -> Self {
        let span = tracer.and_then(|tracer| match part {
            Part::Whole => begin_call(tracer, options, record),
            Part::Preparation | Part::First | Part::Further => begin_piece(tracer, options, record),
        });
        Self { span, part }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.span.is_some()
    }

    /// Ends the span with all that is known of the request. A call that got no reply of an executor ends with a code.
    pub(crate) fn end(
        self,
        record: &RequestRecord,
        end: Option<&RequestEnd<'_>>,
        failure: Option<Code>,
    ) {
        let (Some(mut span), Some(end)) = (self.span, end) else {
            return;
        };
        span.set("flow.request_id", end.header.request_id.as_str());
        span.set("flow.endpoint", end.endpoint());
        span.set("flow.documents", record.documents());
        span.set("flow.bytes", record.bytes);
        if let Some(failed) = &end.failed {
            span.fail(failed.code, failed.cause);
            span.set("flow.executor", failed.executor);
        }
        if self.part.is_piece() {
            return;
        }
        let operation = &*record.origin.operation;
        if operation.starts_with('/') && operation != STREAM {
            // Bad requests of known endpoints are answered with a reply, as executors do it.
            let failure = failure.filter(|it| *it != Code::BadRequest);
            span.set(GRPC_STATUS, i64::from(grpc_status(failure)));
        }
        if record.origin.protocol == Some("http") {
            response_status::keep(span, end.failed.is_some());
        }
    }
}

/// The span of a call, which is a child of the client's.
fn begin_call(
    tracer: &Tracer,
    options: &mut CallOptions,
    record: &mut RequestRecord,
) -> Option<Span> {
    let waited = record.waited;
    let began = || {
        let now = SystemTime::now();
        now.checked_sub(waited).unwrap_or(now)
    };
    let operation = &options.origin.operation;
    let ServerSpan { context, mut span } = tracer.server(operation, options.trace.as_ref(), began);
    if let Some(span) = &mut span {
        set_origin(span, record);
        if !waited.is_zero() {
            drop(tracer.child_since(ADMISSION, SpanKind::Internal, &context, began()));
        }
    }
    record.trace = Some(context.clone());
    options.trace = Some(context);
    span
}

/// The span of a piece, which is a child of the call's.
fn begin_piece(
    tracer: &Tracer,
    options: &mut CallOptions,
    record: &mut RequestRecord,
) -> Option<Span> {
    let call = options.trace.as_ref()?;
    let span = tracer.child(PIECE, SpanKind::Internal, call)?;
    record.trace = Some(span.context().clone());
    options.trace = Some(span.context().clone());
    Some(span)
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
