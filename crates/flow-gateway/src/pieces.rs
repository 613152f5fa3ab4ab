//! A client's call that is sent to the executors in pieces.
//!
//! Each piece is a request of its own to the limits, the metrics and the console. In traces and in the log of all requests, the call
//! is one request, and its pieces are parts of it.

use std::sync::Arc;
use std::time::SystemTime;

use flow_core::{CallOptions, Failure, RequestId};
use flow_proto::jina::{HeaderProto, RouteProto};

use crate::reply::{GATEWAY, route};
use crate::request_record::{Part, RequestEnd, RequestFailure, RequestRecord};
use crate::request_span::RequestSpan;
use crate::snapshot::Snapshot;
use crate::stages;

/// A call in pieces that is in progress.
#[derive(Debug)]
pub(crate) struct CallInPieces {
    snapshot: Arc<Snapshot>,
    header: HeaderProto,
    span: RequestSpan,
    record: RequestRecord,
    /// The gateway's, and one for each node, from the beginning of the first piece there to the end of the last one.
    routes: Vec<RouteProto>,
}

impl CallInPieces {
    /// Begins a call of an endpoint with so many documents. Its pieces are sent with these options from here on.
    pub(crate) fn begin(
        snapshot: Arc<Snapshot>,
        (endpoint, documents): (&str, usize),
        options: &mut CallOptions,
    ) -> Self {
        let id = (options.request_id).get_or_insert_with(|| RequestId::random().as_str().into());
        let header = HeaderProto {
            request_id: id.to_string(),
            exec_endpoint: Some(endpoint.to_owned()),
            ..HeaderProto::default()
        };
        let mut record = RequestRecord::of_pieces(documents, options);
        let tracer = snapshot.shared.tracer.as_ref();
        let span = RequestSpan::begin(tracer, options, &mut record, Part::Whole);
        Self {
            snapshot,
            header,
            span,
            record,
            routes: vec![route(GATEWAY, SystemTime::now())],
        }
    }

    /// Adds a piece that was answered: its bytes, and the routes of its reply.
    pub(crate) fn add(&mut self, bytes: usize, routes: &[RouteProto]) {
        self.record.bytes += bytes;
        for of_piece in stages::without(routes).skip(1) {
            let same = |it: &&mut RouteProto| it.executor == of_piece.executor;
            match self.routes.iter_mut().skip(1).find(same) {
                Some(route) => join(route, of_piece),
                None => self.routes.push(of_piece.clone()),
            }
        }
    }

    /// Ends the call, and logs it if it was slow or the flow asks for it. The piece that failed has a line of its own.
    pub(crate) fn end(mut self, failure: Option<&Failure>) {
        self.routes[0].end_time = Some(SystemTime::now().into());
        let end = RequestEnd {
            header: &self.header,
            routes: &self.routes,
            failed: failure.map(RequestFailure::of_failure),
        };
        let logging = self.snapshot.plan.gateway.logging;
        let log = &self.snapshot.shared.log;
        log.call_in_pieces(&self.record, &end, logging);
        self.span
            .end(&self.record, Some(&end), failure.map(Failure::code));
    }
}

/// Makes a route last from the earlier beginning to the later end.
fn join(route: &mut RouteProto, other: &RouteProto) {
    let key = |it: &prost_types::Timestamp| (it.seconds, it.nanos);
    route.start_time = [route.start_time, other.start_time]
        .into_iter()
        .flatten()
        .min_by_key(key);
    route.end_time = [route.end_time, other.end_time]
        .into_iter()
        .flatten()
        .max_by_key(key);
}

#[cfg(test)]
mod tests;
