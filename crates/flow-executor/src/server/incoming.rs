//! Reads the metadata of a call: its priority, and the trace that it belongs to.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use flow_core::{Code, Failure, TraceContext};
use flow_net::grpc::metadata::{trace, wants_timing};
use flow_proto::jina::HeaderProto;
use flow_trace::{Span, Tracer};
use http::{HeaderName, HeaderValue};
use tonic::Request;
use tonic::metadata::MetadataMap;

use crate::queue::PriorityClass;

/// The metadata key of a request's priority.
const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// The methods, as Jina's spans name them.
pub(super) const UNARY: &str = flow_net::grpc::SINGLE_DATA;
pub(super) const LIST: &str = "/jina.JinaDataRequestRPC/process_data";
pub(super) const STREAM: &str = "/jina.JinaRPC/Call";
pub(super) const STREAM_DOC: &str = "/jina.JinaSingleDocumentRequestRPC/stream_doc";

/// What the metadata of a call says.
#[derive(Debug, Clone)]
pub(super) struct Incoming {
    pub(super) class: Result<PriorityClass, Failure>,
    /// The caller's span; `None` without one, and if this process exports no spans.
    caller: Option<Arc<TraceContext>>,
    /// Whether the caller asks where the time of its requests goes.
    pub(super) wants_timing: bool,
    method: Cow<'static, str>,
}

/// The span of a request, if it is recorded.
#[derive(Debug)]
pub(super) struct RequestSpan(Option<Span>);

impl Incoming {
    /// Reads the metadata of a call of this method.
    pub(super) fn read<T>(
        request: &Request<T>,
        method: &'static str,
        tracer: Option<&Tracer>,
    ) -> Self {
        let metadata = request.metadata();
        Self {
            class: priority(metadata),
            caller: tracer.and_then(|_| trace(metadata)).map(Arc::new),
            wants_timing: wants_timing(metadata),
            method: method.into(),
        }
    }

    /// Begins the span of a request.
    pub(super) fn span(
        &self,
        tracer: Option<&Tracer>,
        header: Option<&HeaderProto>,
        bytes: usize,
    ) -> RequestSpan {
        let Some(tracer) = tracer else {
            return RequestSpan(None);
        };
        let request = tracer.server(&self.method, self.caller.as_ref(), SystemTime::now);
        let Some(mut span) = request.span else {
            return RequestSpan(None);
        };
        let (service, method) = self.method[1..].split_once('/').unwrap_or_default();
        span.set("rpc.system", "grpc");
        span.set("rpc.service", service);
        span.set("rpc.method", method);
        span.set("flow.bytes", bytes);
        if let Some(header) = header {
            span.set("flow.request_id", header.request_id.as_str());
            let endpoint = header.exec_endpoint.as_deref();
            span.set("flow.endpoint", endpoint.unwrap_or_default());
        }
        RequestSpan(Some(span))
    }
}

impl RequestSpan {
    /// What the spans of the request's work are within.
    pub(super) fn context(&self) -> Option<&Arc<TraceContext>> {
        self.0.as_ref().map(Span::context)
    }

    /// Notes that the request has failed.
    pub(super) fn fail(&mut self, failure: &Failure) {
        if let Some(span) = &mut self.0 {
            span.fail(failure.code(), failure.message());
        }
    }
}

/// The priority that the caller asks for.
fn priority(metadata: &MetadataMap) -> Result<PriorityClass, Failure> {
    let priority = metadata.as_ref().get(PRIORITY);
    match priority.map(HeaderValue::as_bytes) {
        None | Some(b"interactive") => Ok(PriorityClass::Interactive),
        Some(b"bulk") => Ok(PriorityClass::Bulk),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let message = format!("`priority` must be `interactive` or `bulk`, is `{other}`");
            Err(Failure::new(Code::BadRequest, message))
        }
    }
}
