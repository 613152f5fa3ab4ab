//! The span of one try of a call.

use std::borrow::Cow;

use flow_core::{CallOptions, Failure};
use flow_trace::{Kind, Span, Tracer};

/// The service and the methods of executors, as Jina's spans name them.
const SERVICE: &str = "jina.JinaSingleDataRequestRPC";
pub(super) const UNARY: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";
pub(super) const STREAM: &str = "/jina.JinaSingleDocumentRequestRPC/stream_doc";

/// One try, and its span if it is recorded.
#[derive(Debug)]
pub(super) struct TracedTry<'o> {
    /// The options of the call; the executor's span becomes a child of this one.
    pub(super) options: Cow<'o, CallOptions>,
    span: Option<Span>,
}

impl<'o> TracedTry<'o> {
    /// Begins the try of a method at a replica, with its number from 1.
    pub(super) fn begin(
        tracer: Option<&Tracer>,
        options: &'o CallOptions,
        (method, uri, number): (&'static str, &str, u32),
    ) -> Self {
        let span = match (tracer, &options.trace) {
            (Some(tracer), Some(trace)) => tracer.child(method, Kind::Client, trace),
            _ => None,
        };
        let Some(mut span) = span else {
            return Self {
                options: Cow::Borrowed(options),
                span: None,
            };
        };
        span.set("rpc.system", "grpc");
        span.set("rpc.service", SERVICE);
        span.set("rpc.method", method.rsplit('/').next().unwrap_or(method));
        span.set("server.address", uri);
        span.set("flow.try", number as usize);
        Self {
            options: Cow::Owned(options.within(span.context())),
            span: Some(span),
        }
    }

    /// Ends the try.
    pub(super) fn end(mut self, failure: Option<&Failure>) {
        if let (Some(span), Some(failure)) = (&mut self.span, failure) {
            span.fail(failure.code(), failure.message());
        }
    }
}
