//! Admits requests: each gets the newest snapshot, and a permit of the concurrency limit until it ends.

use std::sync::Arc;
use std::time::Duration;

use flow_core::{CallOptions, Failure, RequestId};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_spec::RequestLogging;

use crate::auth;
use crate::limit::Permit;
use crate::reply::Finished;
use crate::request;
use crate::request_record::{Part, RequestEnd, RequestRecord, Waiting};
use crate::request_span::RequestSpan;
use crate::snapshot::Snapshot;

/// The right of a request to run.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    pub(crate) snapshot: Arc<Snapshot>,
    permit: Permit,
    /// How long the request waited for it.
    pub(crate) waited: Duration,
    /// Which part of a call the request is.
    part: Part,
}

impl RequestPermit {
    /// Admits a request if there is a permit now; or else gives the snapshot back.
    pub(crate) fn now(snapshot: Arc<Snapshot>) -> Result<Self, Arc<Snapshot>> {
        match snapshot.limit.try_acquire() {
            Some(permit) => Ok(Self {
                snapshot,
                permit,
                waited: Duration::ZERO,
                part: Part::Whole,
            }),
            None => Err(snapshot),
        }
    }

    /// Admits a request as soon as there is a permit.
    pub(crate) async fn later(snapshot: Arc<Snapshot>) -> Self {
        let waiting = Waiting::begin();
        let permit = snapshot.limit.clone().acquire().await;
        Self {
            snapshot,
            permit,
            waited: waiting.end(),
            part: Part::Whole,
        }
    }

    /// The same right for a part of a call.
    pub(crate) fn of_part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// Runs the request, counts it, and logs it if it failed or the flow asks for it.
    pub(crate) async fn run(self, mut request: Envelope, mut options: CallOptions) -> Finished {
        identify(request.header.get_or_insert_default(), &options);
        let shared = &self.snapshot.shared;
        let arrival = (&options.origin, Some(self.waited));
        let timer = (self.snapshot).measure(&request, request.header.as_ref(), arrival);
        let mut record = RequestRecord::new(&request, &options, self.waited);
        let span = RequestSpan::begin(shared.tracer.as_ref(), &mut options, &mut record, self.part);
        let wants_timing = options.timing;
        // In a box: futures are moved as they are passed up to the connection, and this one has kilobytes.
        let mut finished = Box::pin(request::run(&self.snapshot, request, options)).await;
        record.counted = finished.documents;
        if let (Some(usage), Some(identity)) = (finished.usage, auth::current()) {
            identity.add_tokens(usage.tokens);
        }
        let end = RequestEnd::of_reply(&finished.reply);
        if let Some(end) = &end {
            // The call is logged, and not its pieces.
            let logging = match self.part.is_piece() {
                false => self.snapshot.plan.gateway.logging,
                true => RequestLogging::default(),
            };
            shared.log.end(&record, end, logging);
        }
        let failed = finished.failure.as_ref().map(Failure::code);
        span.end(&record, end.as_ref(), failed);
        if let Some(mut timer) = timer {
            timer.trace(record.trace.as_deref());
            let reported = end.and_then(|end| end.failed).map(|it| it.code);
            timer.end(&finished.reply, failed.or(reported));
        }
        if wants_timing {
            let stages = std::mem::take(&mut finished.stages);
            stages.write(&mut finished.reply.routes, self.waited);
        }
        drop(self.permit);
        finished
    }
}

/// Gives a request without an id that of its call, or a new one.
pub(crate) fn identify(header: &mut HeaderProto, options: &CallOptions) {
    if header.request_id.is_empty() {
        header.request_id = match &options.request_id {
            Some(id) => id.to_string(),
            None => RequestId::random().into(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_id_gets_that_of_its_call_or_a_new_one() {
        let id = |own: &str, options: &CallOptions| {
            let mut header = HeaderProto {
                request_id: own.to_owned(),
                ..HeaderProto::default()
            };
            identify(&mut header, options);
            header.request_id
        };
        let of_call = CallOptions {
            request_id: Some("call".into()),
            ..CallOptions::default()
        };
        assert_eq!(id("own", &of_call), "own");
        assert_eq!(id("", &of_call), "call");
        assert_eq!(id("", &CallOptions::default()).len(), 32);
    }
}
