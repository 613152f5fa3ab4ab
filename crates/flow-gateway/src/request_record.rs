//! What is known of one request, for its line in the log and for its span.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use flow_core::{CallOptions, Code, Endpoint, Failure, Origin, TraceContext};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto, SingleDocumentRequestProto, StatusProto};
use prost_types::Timestamp;

use crate::reply::{error_status, if_error};

/// A request that was sent: what its line in the log says before it is known how it ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestRecord {
    pub(crate) origin: Origin,
    pub(crate) trace: Option<Arc<TraceContext>>,
    /// How long it waited to be admitted.
    pub(crate) waited: Duration,
    /// Its documents. They are counted only when a log line or a span needs their number.
    data: Option<Bytes>,
    /// Their number, once they have been counted.
    pub(crate) counted: Option<usize>,
    /// It has one document, and the reply is a stream of documents.
    is_single: bool,
    /// Bytes of its documents and parameters.
    pub(crate) bytes: usize,
}

impl RequestRecord {
    /// The record of a request that waited to be admitted for so long.
    pub(crate) fn new(request: &Envelope, options: &CallOptions, waited: Duration) -> Self {
        let len = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        Self {
            origin: options.origin.clone(),
            trace: options.trace.clone(),
            waited,
            data: request.data.clone(),
            counted: None,
            is_single: false,
            bytes: len(&request.data) + len(&request.parameters),
        }
    }

    /// The record of a request with one document.
    pub(crate) fn of_document(request: &SingleDocumentRequestProto, options: &CallOptions) -> Self {
        let len = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        Self {
            origin: options.origin.clone(),
            trace: options.trace.clone(),
            is_single: true,
            bytes: len(&request.document) + len(&request.parameters),
            ..Self::default()
        }
    }

    /// The record of a call with so many documents, whose pieces are not known yet.
    pub(crate) fn of_pieces(documents: usize, options: &CallOptions) -> Self {
        Self {
            origin: options.origin.clone(),
            trace: options.trace.clone(),
            counted: Some(documents),
            ..Self::default()
        }
    }

    /// The number of its documents, nested ones included.
    pub(crate) fn documents(&self) -> usize {
        match (self.is_single, self.counted) {
            (true, _) => 1,
            (false, Some(documents)) => documents,
            (false, None) => crate::auth::documents(self.data.as_ref()),
        }
    }
}

/// Which part of a client's call a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The call is this request.
    Whole,
    /// The first of several pieces.
    First,
    /// What a call asks of an executor before it: it counts as a part of the call.
    Preparation,
    /// Another piece: a call that was let in is answered in full, also if it takes the last tokens of the day.
    Further,
}

impl Part {
    pub(crate) fn is_piece(self) -> bool {
        self != Self::Whole
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestEnd<'r> {
    pub(crate) header: &'r HeaderProto,
    /// The routes of the reply; the first is the gateway's. Empty if the request did not run.
    pub(crate) routes: &'r [RouteProto],
    pub(crate) failed: Option<RequestFailure<'r>>,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestFailure<'r> {
    pub(crate) code: Code,
    /// The node where it failed; empty if it was none.
    pub(crate) executor: &'r str,
    /// What happened, with all its causes.
    pub(crate) cause: &'r str,
}

impl<'r> RequestEnd<'r> {
    /// A request with this reply; `None` if the reply has no header.
    pub(crate) fn of_reply(reply: &'r Envelope) -> Option<Self> {
        let header = reply.header.as_ref()?;
        Some(Self {
            header,
            routes: &reply.routes,
            failed: error_status(Some(header)).map(RequestFailure::of_status),
        })
    }

    pub(crate) fn endpoint(&self) -> &'r str {
        self.header.exec_endpoint.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.endpoint() == Endpoint::DRY_RUN
    }

    /// How long it ran.
    pub(crate) fn took(&self) -> Duration {
        self.routes.first().map_or(Duration::ZERO, duration)
    }

    /// When it ended; `None` if it did not run.
    pub(crate) fn ended(&self) -> Option<SystemTime> {
        time(self.routes.first()?.end_time)
    }

    /// The nodes that it ran at, each with its time.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&'r str, Duration)> {
        let nodes = self.routes.iter().skip(1);
        nodes.map(|route| (route.executor.as_str(), duration(route)))
    }

    /// The nodes that worked on it, each with when and how. The route of a node that it passed by takes no time at all.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = Interval<'r>> + use<'r> {
        let began = self.routes.first().and_then(|it| it.start_time);
        let nodes = self.routes.iter().skip(1).map(move |route| Interval {
            name: &route.executor,
            after: between(began, route.start_time),
            took: duration(route),
            failed: if_error(route.status.as_ref()).is_some(),
        });
        nodes.filter(|node| node.failed || !node.took.is_zero())
    }
}

/// When a node worked on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval<'r> {
    pub(crate) name: &'r str,
    /// After the request was admitted.
    pub(crate) after: Duration,
    pub(crate) took: Duration,
    pub(crate) failed: bool,
}

impl<'r> RequestFailure<'r> {
    pub(crate) fn of_status(status: &'r StatusProto) -> Self {
        let exception = status.exception.as_ref();
        let name = exception.map_or("", |it| it.name.as_str());
        Self {
            code: Code::from_exception(name),
            executor: exception.map_or("", |it| it.executor.as_str()),
            cause: &status.description,
        }
    }

    pub(crate) fn of_failure(failure: &'r Failure) -> Self {
        Self {
            code: failure.code(),
            executor: "",
            cause: failure.message(),
        }
    }

    /// Whether the client is the cause: the request was invalid or not allowed, or its client disconnected.
    pub(crate) fn is_clients(&self) -> bool {
        matches!(
            self.code,
            Code::BadRequest
                | Code::Cancelled
                | Code::Forbidden
                | Code::TooLarge
                | Code::Unauthenticated
        )
    }
}

/// How long a route took; zero if it has no end.
fn duration(route: &RouteProto) -> Duration {
    between(route.start_time, route.end_time)
}

/// The time from one moment to a later one; zero if one of them is not known.
fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Duration {
    let (Some(from), Some(to)) = (from, to) else {
        return Duration::ZERO;
    };
    // Not by way of the system's own times, which takes twice as long as all else that is done to record a request.
    let seconds = to.seconds.saturating_sub(from.seconds);
    let nanos = i64::from(to.nanos) - i64::from(from.nanos);
    let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    u64::try_from(nanos).map_or(Duration::ZERO, Duration::from_nanos)
}

fn time(written: Option<Timestamp>) -> Option<SystemTime> {
    SystemTime::try_from(written?).ok()
}

/// Measures how long a request waits to be admitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting(Instant);

impl Waiting {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn end(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_between_moments_is_never_negative() {
        let at = |seconds, nanos| Some(Timestamp { seconds, nanos });
        let second = Duration::from_secs(1);
        assert_eq!(between(at(1, 5), at(2, 5)), second);
        assert_eq!(
            between(at(1, 999_999_999), at(2, 0)),
            Duration::from_nanos(1)
        );
        assert_eq!(between(at(2, 0), at(1, 0)), Duration::ZERO);
        assert_eq!(between(at(i64::MAX, 0), at(i64::MIN, 0)), Duration::ZERO);
        assert_eq!(between(None, at(1, 0)), Duration::ZERO);
        assert_eq!(between(at(1, 0), None), Duration::ZERO);
    }
}
