//! Logs requests: those that fail or are slow, one line each, within a limit; and all of them, if the flow asks for it.
//!
//! A flood of failing requests must neither fill the disk nor slow down successful ones. Lines beyond the limit are
//! counted, and the count is logged later.

use std::convert::Infallible;
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flow_core::{Code, Failure, LineBudget, Origin, TraceContext};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto, StatusProto};
use flow_spec::RequestLogging;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::console::History;
use crate::counts::RequestCounts;
use crate::request_record::{RequestEnd, RequestFailure, RequestRecord};
use crate::shortened::shortened;

/// Maximum length of a logged cause, in bytes; the client gets the whole cause.
const CAUSE_LEN_MAX: usize = 1_000;

/// The target of the lines that log every request, if a flow asks for them.
pub const ACCESS_LOG: &str = "flow_gateway::access";

/// Logs requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    budget: Mutex<LineBudget>,
    /// Notified when a line was suppressed.
    suppressed: Notify,
    /// What the console knows of all requests; `None` without a console.
    history: Option<History>,
    counts: RequestCounts,
}

/// Writes a line with all that is known of a request.
macro_rules! log_request {
    ($level:ident, $target:expr, $record:expr, $end:expr, $message:literal) => {{
        let (record, end): (&RequestRecord, &RequestEnd<'_>) = ($record, $end);
        let failed = end.failed.as_ref();
        tracing::$level!(
            target: $target,
            request_id = end.header.request_id.as_str(),
            endpoint = end.endpoint(),
            protocol = record.origin.protocol,
            client = record.origin.client.map(|it| tracing::field::display(Address(it))),
            key = record.origin.key.as_deref(),
            documents = record.documents(),
            bytes = record.bytes,
            executor = failed.map(|it| it.executor).filter(|it| !it.is_empty()),
            code = failed.map(|it| it.code.as_str()),
            took_ms = milliseconds(end.took()),
            waited_ms = (!record.waited.is_zero()).then(|| milliseconds(record.waited)),
            nodes_ms = nodes(end),
            trace_id = record.trace.as_deref().map(TraceContext::trace_id),
            span_id = record.trace.as_deref().map(TraceContext::span_id),
            cause = failed.map(|it| shortened(it.cause, CAUSE_LEN_MAX)),
            $message
        );
    }};
}

impl RequestLog {
    /// A log that records all requests there, too.
    pub(crate) fn new(history: Option<History>) -> Self {
        Self {
            history,
            ..Self::default()
        }
    }

    /// What the console knows of all requests.
    pub(crate) fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// The requests that ended.
    pub(crate) fn counts(&self) -> &RequestCounts {
        &self.counts
    }

    /// Counts a request that ended, and logs it if it failed, was slow, or all are logged.
    pub(crate) fn end(
        &self,
        record: &RequestRecord,
        end: &RequestEnd<'_>,
        logging: RequestLogging,
    ) {
        if !end.is_dry_run() {
            self.counts
                .add(record.waited + end.took(), end.failed.is_some());
        }
        if let Some(history) = &self.history {
            history.record(record, end);
        }
        self.failed(record, end);
        self.call_in_pieces(record, end, logging);
    }

    /// Logs a call if it was slow, or all are logged. Its pieces were counted before, and the one that failed was logged.
    pub(crate) fn call_in_pieces(
        &self,
        record: &RequestRecord,
        end: &RequestEnd<'_>,
        logging: RequestLogging,
    ) {
        if end.failed.is_none()
            && let Some(slow) = logging.slow
            && record.waited + end.took() >= slow
            && self.may_log()
        {
            log_request!(warn, "flow_gateway::slow", record, end, "slow request");
        }
        if logging.all && !end.is_dry_run() {
            log_request!(info, ACCESS_LOG, record, end, "request");
        }
    }

    /// Records what floating nodes did after the reply to their request.
    pub(crate) fn floating_ended(&self, rest: &Envelope) {
        if let (Some(history), Some(end)) = (&self.history, RequestEnd::of_reply(rest)) {
            history.record_floating(&end);
        }
    }

    /// Logs a call that fails without a reply.
    pub(crate) fn call(
        &self,
        record: &RequestRecord,
        header: Option<&HeaderProto>,
        failure: &Failure,
        logging: RequestLogging,
    ) {
        let none = HeaderProto::default();
        let end = RequestEnd {
            header: header.unwrap_or(&none),
            routes: &[],
            failed: Some(RequestFailure::of_failure(failure)),
        };
        self.end(record, &end, logging);
    }

    fn failed(&self, record: &RequestRecord, end: &RequestEnd<'_>) {
        let Some(failed) = &end.failed else { return };
        if end.is_dry_run() {
            // The client wants to know whether the flow is ready, gets the answer, and asks again.
            let request_id = end.header.request_id.as_str();
            tracing::debug!(request_id, cause = failed.cause, "not ready");
        } else if self.may_log() {
            match failed.is_clients() {
                true => log_request!(info, "flow_gateway::failed", record, end, "request failed"),
                false => log_request!(warn, "flow_gateway::failed", record, end, "request failed"),
            }
        }
    }

    /// Logs the failure of a floating node.
    pub(crate) fn floating(
        &self,
        header: Option<&HeaderProto>,
        route: &RouteProto,
        status: &StatusProto,
    ) {
        if self.may_log() {
            let request_id = header.map(|it| it.request_id.as_str());
            let endpoint = header.and_then(|it| it.exec_endpoint.as_deref());
            let (executor, cause) = (
                route.executor.as_str(),
                shortened(&status.description, CAUSE_LEN_MAX),
            );
            tracing::warn!(
                request_id,
                endpoint,
                executor,
                cause,
                "request failed in an executor that its reply does not wait for"
            );
        }
    }

    /// Logs the failure that ended the reading of a stream.
    pub(crate) fn stream(&self, origin: &Origin, failure: &Failure) {
        match failure.code() {
            // The client disconnected, or the gateway shuts down: no request failed. Or its deadline passed, and each request
            // that failed has a line.
            Code::Cancelled | Code::Lost | Code::Unavailable | Code::DeadlineExceeded => {
                tracing::debug!(cause = %failure, "stream ended");
            }
            _ if self.may_log() => {
                tracing::warn!(
                    protocol = origin.protocol,
                    client = origin.client.map(tracing::field::display),
                    key = origin.key.as_deref(),
                    code = failure.code().as_str(),
                    cause = shortened(failure.message(), CAUSE_LEN_MAX),
                    "stream failed"
                );
            }
            _ => {}
        }
    }

    fn may_log(&self) -> bool {
        let may = self.budget().take(Instant::now());
        if !may {
            self.suppressed.notify_one();
        }
        may
    }

    /// Logs the number of suppressed lines from time to time.
    pub(crate) async fn report(&self) -> Infallible {
        loop {
            self.suppressed.notified().await;
            sleep(LineBudget::PERIOD).await;
            self.flush();
        }
    }

    /// Logs the number of suppressed lines, if there are any.
    pub(crate) fn flush(&self) {
        let requests = self.budget().take_left_out();
        if requests > 0 {
            tracing::warn!(
                requests,
                "more requests failed or were slow; no more than {} in {} s are logged one by one",
                LineBudget::LINES_MAX,
                LineBudget::PERIOD.as_secs()
            );
        }
    }

    fn budget(&self) -> MutexGuard<'_, LineBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address of a client. IPv4 is written as one text, which is quicker than part by part.
struct Address(IpAddr);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IpAddr::V4(address) = self.0 else {
            return self.0.fmt(f);
        };
        let mut text = [0; 15];
        let mut end = 0;
        for (number, part) in address.octets().into_iter().enumerate() {
            if number > 0 {
                text[end] = b'.';
                end += 1;
            }
            for divisor in [100, 10, 1] {
                if part >= divisor || divisor == 1 {
                    text[end] = b'0' + part / divisor % 10;
                    end += 1;
                }
            }
        }
        f.write_str(str::from_utf8(&text[..end]).unwrap_or_default())
    }
}

/// Whole microseconds.
fn microseconds(time: Duration) -> u64 {
    let microseconds = time.as_nanos().saturating_add(500) / 1_000;
    u64::try_from(microseconds).unwrap_or(u64::MAX)
}

/// Whole microseconds, as milliseconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "requests take less than the 285 years from which on microseconds are rounded"
)]
fn milliseconds(time: Duration) -> f64 {
    microseconds(time) as f64 / 1e3
}

/// The nodes with their times, such as `encoder 3.2, index 0.4`; `None` if none has run.
fn nodes(end: &RequestEnd<'_>) -> Option<String> {
    let mut text = String::new();
    for (node, time) in end.nodes() {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(node);
        text.push(' ');
        push_milliseconds(&mut text, time);
    }
    (!text.is_empty()).then_some(text)
}

/// Writes milliseconds with as many digits behind the point as whole microseconds need.
fn push_milliseconds(text: &mut String, time: Duration) {
    let microseconds = microseconds(time);
    let (whole, rest) = (microseconds / 1_000, microseconds % 1_000);
    // Writing to a string does not fail.
    match rest {
        0 => write!(text, "{whole}").ok(),
        _ if rest % 100 == 0 => write!(text, "{whole}.{}", rest / 100).ok(),
        _ if rest % 10 == 0 => write!(text, "{whole}.{:02}", rest / 10).ok(),
        _ => write!(text, "{whole}.{rest:03}").ok(),
    };
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_line_says_where_the_time_went() {
        let at = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let route = |executor: &str, from, to| RouteProto {
            executor: executor.to_owned(),
            start_time: Some(at(from).into()),
            end_time: Some(at(to).into()),
            ..RouteProto::default()
        };
        let routes = [route("gateway", 0, 9), route("a", 1, 4), route("b", 4, 9)];
        let end = RequestEnd {
            header: &HeaderProto::default(),
            routes: &routes,
            failed: None,
        };
        assert_eq!(nodes(&end).as_deref(), Some("a 3, b 5"));
        assert_eq!(end.took(), Duration::from_millis(9));
        assert_eq!(nodes(&RequestEnd { routes: &[], ..end }), None);
    }

    #[test]
    fn an_address_is_written_as_usual() {
        for text in [
            "127.0.0.1",
            "0.10.100.255",
            "255.255.255.255",
            "9.99.101.0",
            "fe80::1",
        ] {
            let address = Address(text.parse().unwrap());
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn milliseconds_have_the_digits_that_they_need() {
        for nanos in (0..3_000_000)
            .step_by(491)
            .chain([1_250_000, 1_500_000, 999_999_500])
        {
            let time = Duration::from_nanos(nanos);
            let mut text = String::new();
            push_milliseconds(&mut text, time);
            assert_eq!(text, milliseconds(time).to_string());
        }
    }

    #[test]
    fn failures_that_the_client_caused_are_not_warnings() {
        let is_clients = |code| {
            let failure = Failure::new(code, "");
            RequestFailure::of_failure(&failure).is_clients()
        };
        assert!(is_clients(Code::BadRequest));
        assert!(!is_clients(Code::ExecutorFailed));
        assert!(!is_clients(Code::Lost));
    }
}
