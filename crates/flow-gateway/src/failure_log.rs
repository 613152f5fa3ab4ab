//! Logs requests that fail, one line each, within a limit: a flood of failing requests must neither fill the disk nor
//! slow down successful ones. Lines beyond the limit are counted, and the count is logged later.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flow_core::{Code, Endpoint, Failure};
use flow_proto::jina::{HeaderProto, RouteProto, StatusProto};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::reply::error_status;

/// Maximum number of lines per [`PERIOD`]: enough to see what fails, and at most a few kilobytes a second.
const LINES_MAX: u32 = 50;

/// Time that a budget of lines lasts, and after which the number of suppressed lines is logged.
const PERIOD: Duration = Duration::from_secs(10);

/// Maximum length of a logged cause, in bytes; the client gets the whole cause.
const CAUSE_LEN_MAX: usize = 1_000;

/// Logs failed requests.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    budget: Mutex<Budget>,
    /// Notified when a line was suppressed.
    suppressed: Notify,
}

/// What is logged of one failed request.
struct FailedRequest<'r> {
    header: &'r HeaderProto,
    executor: &'r str,
    /// The request was invalid, or its client disconnected.
    is_clients: bool,
    cause: &'r str,
}

impl FailureLog {
    /// Logs a reply if it reports a failure.
    pub(crate) fn reply(&self, header: Option<&HeaderProto>) {
        let (Some(header), Some(status)) = (header, error_status(header)) else {
            return;
        };
        let exception = status.exception.as_ref();
        let name = exception.map_or("", |it| it.name.as_str());
        self.log(&FailedRequest {
            header,
            executor: exception.map_or("", |it| it.executor.as_str()),
            is_clients: is_clients(name),
            cause: &status.description,
        });
    }

    /// Logs a call that fails without a reply.
    pub(crate) fn call(&self, header: Option<&HeaderProto>, failure: &Failure) {
        self.log(&FailedRequest {
            header: header.unwrap_or(&HeaderProto::default()),
            executor: "",
            is_clients: is_clients(failure.code().exception()),
            cause: &failure.to_string(),
        });
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
            let (executor, cause) = (route.executor.as_str(), shortened(&status.description));
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
    pub(crate) fn stream(&self, failure: &Failure) {
        match failure.code() {
            // The client disconnected, or the gateway shuts down: no request failed.
            Code::Cancelled | Code::Lost | Code::Unavailable => {
                tracing::debug!(cause = %failure, "stream ended");
            }
            _ if self.may_log() => {
                tracing::warn!(cause = shortened(failure.message()), "stream failed");
            }
            _ => {}
        }
    }

    fn log(&self, failed: &FailedRequest<'_>) {
        let request_id = failed.header.request_id.as_str();
        let endpoint = failed.header.exec_endpoint.as_deref().unwrap_or_default();
        let executor = Some(failed.executor).filter(|name| !name.is_empty());
        let cause = shortened(failed.cause);
        if endpoint == Endpoint::DRY_RUN {
            // The client wants to know whether the flow is ready, gets the answer, and asks again.
            tracing::debug!(request_id, cause, "not ready");
        } else if self.may_log() {
            match failed.is_clients {
                true => tracing::info!(request_id, endpoint, executor, cause, "request failed"),
                false => tracing::warn!(request_id, endpoint, executor, cause, "request failed"),
            }
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
            sleep(PERIOD).await;
            self.flush();
        }
    }

    /// Logs the number of suppressed lines, if there are any.
    pub(crate) fn flush(&self) {
        let requests = std::mem::take(&mut self.budget().suppressed);
        if requests > 0 {
            tracing::warn!(
                requests,
                "more requests failed; no more than {LINES_MAX} in {} s are logged one by one",
                PERIOD.as_secs()
            );
        }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of lines that may still be logged. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Budget {
    /// The start of the current period.
    since: Option<Instant>,
    /// Lines logged in this period.
    logged: u32,
    /// Suppressed lines that have not been reported yet.
    suppressed: u64,
}

impl Budget {
    /// Whether one more line may be logged; counts it in either case.
    fn take(&mut self, now: Instant) -> bool {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= PERIOD;
        if self.since.is_none_or(is_over) {
            self.since = Some(now);
            self.logged = 0;
        }
        let may = self.logged < LINES_MAX;
        match may {
            true => self.logged += 1,
            false => self.suppressed += 1,
        }
        may
    }
}

/// Whether the client caused a failure of this name. Stock executors name exceptions of Python, which are not among
/// these.
fn is_clients(exception: &str) -> bool {
    [
        Code::BadRequest,
        Code::Cancelled,
        Code::Forbidden,
        Code::TooLarge,
    ]
    .iter()
    .any(|code| code.exception() == exception)
}

/// The beginning of a text, not too long for a line.
fn shortened(text: &str) -> &str {
    let ends = (0..=CAUSE_LEN_MAX.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_lines_lasts_for_a_period_and_further_lines_are_counted() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        for _ in 0..LINES_MAX {
            assert!(budget.take(start));
        }
        assert!(!budget.take(start + PERIOD / 2));
        assert!(!budget.take(start + PERIOD - Duration::from_millis(1)));
        assert_eq!(budget.suppressed, 2);
        assert!(budget.take(start + PERIOD));
        assert_eq!((budget.logged, budget.suppressed), (1, 2));
    }

    #[test]
    fn a_clock_that_stops_or_goes_back_does_no_harm() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        assert!(budget.take(start + PERIOD));
        assert!(budget.take(start));
        assert_eq!(budget.logged, 2);
    }

    #[test]
    fn a_cause_is_cut_at_a_character_boundary() {
        assert_eq!(shortened("short"), "short");
        let text = format!("x{}", "é".repeat(CAUSE_LEN_MAX));
        assert_eq!(shortened(&text).len(), CAUSE_LEN_MAX - 1);
    }

    #[test]
    fn failures_that_the_client_caused_are_not_warnings() {
        assert!(is_clients("BadRequest"));
        assert!(!is_clients("ExecutorError"));
        assert!(!is_clients("ValueError"));
        assert!(!is_clients(""));
    }
}
