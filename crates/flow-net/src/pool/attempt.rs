//! The span of one try of a call.

use std::borrow::Cow;

use flow_core::{CallOptions, Failure};
use flow_trace::{Span, SpanKind, Tracer};

use crate::status::{GRPC_STATUS, grpc_status};

/// The service and the methods of executors, as Jina's spans name them.
const SERVICE: &str = "jina.JinaSingleDataRequestRPC";
pub(super) const UNARY: &str = crate::grpc::SINGLE_DATA;
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
            (Some(tracer), Some(trace)) => tracer.child(method, SpanKind::Client, trace),
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
        let (address, port) = server(uri);
        span.set("server.address", address);
        if let Some(port) = port {
            span.set("server.port", i64::from(port));
        }
        span.set("flow.try", number as usize);
        Self {
            options: Cow::Owned(options.within(span.context())),
            span: Some(span),
        }
    }

    /// Notes that the same request is in progress at another replica.
    pub(super) fn is_hedge(&mut self) {
        if let Some(span) = &mut self.span {
            span.set("flow.hedge", true);
        }
    }

    /// Ends the try.
    pub(super) fn end(mut self, failure: Option<&Failure>) {
        let Some(mut span) = self.span.take() else {
            return;
        };
        let status = grpc_status(failure.map(Failure::code));
        span.set(GRPC_STATUS, i64::from(status));
        if let Some(failure) = failure {
            span.fail(failure.code(), failure.message());
        }
    }
}

/// The host, or the path of a socket, and the port of a replica's URI.
fn server(uri: &str) -> (&str, Option<u16>) {
    let authority = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let authority = authority.trim_end_matches('/');
    let with_port = authority.rsplit_once(':');
    match with_port.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => (host.trim_matches(['[', ']']), Some(port)),
        None => (authority.strip_prefix("unix:").unwrap_or(authority), None),
    }
}

/// Marks a try that was cancelled: the caller has gone, or another replica answered first.
impl Drop for TracedTry<'_> {
    fn drop(&mut self) {
        if let Some(span) = &mut self.span {
            span.set("flow.cancelled", true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flow_core::TraceContext;
    use flow_trace::Sampling;

    use super::*;

    #[test]
    fn a_replica_is_named_by_its_host_and_its_port_or_by_its_socket() {
        for (uri, address, port) in [
            ("http://10.0.0.1:8080", "10.0.0.1", Some(8080)),
            (
                "https://encoder.example.com:443/",
                "encoder.example.com",
                Some(443),
            ),
            ("http://[::1]:9001", "::1", Some(9001)),
            ("http://encoder", "encoder", None),
            (
                "unix:/run/flow/encoder.sock",
                "/run/flow/encoder.sock",
                None,
            ),
            (
                "unix:///run/flow/encoder.sock",
                "/run/flow/encoder.sock",
                None,
            ),
        ] {
            assert_eq!(server(uri), (address, port), "{uri}");
        }
    }

    #[test]
    fn the_spans_of_a_hedged_call_say_which_try_was_the_hedge_and_which_was_cancelled() {
        let every = Sampling {
            ratio: 1.0,
            follows_parent: true,
        };
        let (sender, ended) = std::sync::mpsc::channel();
        let tracer = Tracer::new(every, move |span| {
            sender.send(span).ok();
        });
        let parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let options = CallOptions {
            trace: TraceContext::parse(parent).map(Arc::new),
            ..CallOptions::default()
        };
        let begin = |uri| TracedTry::begin(Some(&tracer), &options, (UNARY, uri, 1));
        let first = begin("http://slow:1");
        let mut hedge = begin("http://quick:1");
        hedge.is_hedge();
        hedge.end(None);
        drop(first);
        let flags = |expected: &[&str]| {
            let span = ended.try_recv().unwrap();
            let keys = span.attributes.iter().map(|it| it.key.to_string());
            let keys: Vec<String> = keys
                .filter(|key| ["flow.hedge", "flow.cancelled"].contains(&key.as_str()))
                .collect();
            assert_eq!(keys, expected);
        };
        flags(&["flow.hedge"]);
        flags(&["flow.cancelled"]);
    }
}
