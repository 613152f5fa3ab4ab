//! A line in the log for each request that fails, within a limit: a flood of failing requests must neither
//! fill the disk nor slow down those that succeed. How many more failed is counted, and written later.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flow_core::{Code, Endpoint, Failure};
use flow_proto::jina::{HeaderProto, RouteProto, StatusProto};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::reply::refusal;

/// Lines written within one [`PERIOD`]: enough to see what fails, a few kilobytes a second at most.
const LINES_MAX: u32 = 50;

/// How long a budget of lines lasts, and how soon after a flood its size is told.
const PERIOD: Duration = Duration::from_secs(10);

/// Bytes of a cause that are written; a client gets all of it.
const CAUSE_LEN_MAX: usize = 1_000;

/// Writes lines about failed requests.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    budget: Mutex<Budget>,
    /// Told when a line was not written.
    suppressed: Notify,
}

/// What is written of one failed request.
struct Failed<'r> {
    header: &'r HeaderProto,
    executor: &'r str,
    /// The request itself was wrong, or its client went away.
    is_clients: bool,
    cause: &'r str,
}

impl FailureLog {
    /// To be told of every reply; writes only of those that tell of a failure.
    pub(crate) fn reply(&self, header: Option<&HeaderProto>) {
        let (Some(header), Some(status)) = (header, refusal(header)) else {
            return;
        };
        let exception = status.exception.as_ref();
        let name = exception.map_or("", |it| it.name.as_str());
        self.write(&Failed {
            header,
            executor: exception.map_or("", |it| it.executor.as_str()),
            is_clients: is_clients(name),
            cause: &status.description,
        });
    }

    /// A request that gets no reply, but fails the call that carried it.
    pub(crate) fn call(&self, header: Option<&HeaderProto>, failure: &Failure) {
        self.write(&Failed {
            header: header.unwrap_or(&HeaderProto::default()),
            executor: "",
            is_clients: is_clients(failure.code().exception()),
            cause: &failure.to_string(),
        });
    }

    /// A node that failed a request which does not wait for it.
    pub(crate) fn floating(
        &self,
        header: Option<&HeaderProto>,
        route: &RouteProto,
        status: &StatusProto,
    ) {
        if self.may_write() {
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

    /// A stream that ended because no more requests could be read from it.
    pub(crate) fn stream(&self, failure: &Failure) {
        match failure.code() {
            // The client went away, or we do: neither is a failure of a request.
            Code::Cancelled | Code::Lost | Code::Unavailable => {
                tracing::debug!(cause = %failure, "stream ended");
            }
            _ if self.may_write() => {
                tracing::warn!(cause = shortened(failure.message()), "stream failed");
            }
            _ => {}
        }
    }

    fn write(&self, failed: &Failed<'_>) {
        let request_id = failed.header.request_id.as_str();
        let endpoint = failed.header.exec_endpoint.as_deref().unwrap_or_default();
        let executor = Some(failed.executor).filter(|name| !name.is_empty());
        let cause = shortened(failed.cause);
        if endpoint == Endpoint::DRY_RUN {
            // Whoever asks whether the flow is ready gets the answer, and asks again.
            tracing::debug!(request_id, cause, "not ready");
        } else if self.may_write() {
            match failed.is_clients {
                true => tracing::info!(request_id, endpoint, executor, cause, "request failed"),
                false => tracing::warn!(request_id, endpoint, executor, cause, "request failed"),
            }
        }
    }

    fn may_write(&self) -> bool {
        let may = self.budget().take(Instant::now());
        if !may {
            self.suppressed.notify_one();
        }
        may
    }

    /// Tells from time to time how many lines were not written. Never ends.
    pub(crate) async fn report(&self) -> Infallible {
        loop {
            self.suppressed.notified().await;
            sleep(PERIOD).await;
            self.flush();
        }
    }

    /// Tells how many lines were not written, if any.
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

/// How many lines may still be written. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Budget {
    /// When the present period began.
    since: Option<Instant>,
    /// Lines written in it.
    written: u32,
    /// Lines not written, and not told of yet.
    suppressed: u64,
}

impl Budget {
    /// Whether one more line may be written; counts it either way.
    fn take(&mut self, now: Instant) -> bool {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= PERIOD;
        if self.since.is_none_or(is_over) {
            self.since = Some(now);
            self.written = 0;
        }
        let may = self.written < LINES_MAX;
        match may {
            true => self.written += 1,
            false => self.suppressed += 1,
        }
        may
    }
}

/// Whether a failure of this name is for the client to mend. Stock executors name Python's exceptions, which
/// are none of these.
fn is_clients(exception: &str) -> bool {
    [Code::BadRequest, Code::Cancelled, Code::TooLarge]
        .iter()
        .any(|code| code.exception() == exception)
}

/// A text that is not too long for a line.
fn shortened(text: &str) -> &str {
    let ends = (0..=CAUSE_LEN_MAX.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_lines_lasts_for_a_period_and_the_rest_is_counted() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        for _ in 0..LINES_MAX {
            assert!(budget.take(start));
        }
        assert!(!budget.take(start + PERIOD / 2));
        assert!(!budget.take(start + PERIOD - Duration::from_millis(1)));
        assert_eq!(budget.suppressed, 2);
        assert!(budget.take(start + PERIOD));
        assert_eq!((budget.written, budget.suppressed), (1, 2));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_does_no_harm() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        assert!(budget.take(start + PERIOD));
        assert!(budget.take(start));
        assert_eq!(budget.written, 2);
    }

    #[test]
    fn a_cause_is_cut_between_letters() {
        assert_eq!(shortened("short"), "short");
        let text = format!("x{}", "é".repeat(CAUSE_LEN_MAX));
        assert_eq!(shortened(&text).len(), CAUSE_LEN_MAX - 1);
    }

    #[test]
    fn what_a_client_has_to_mend_is_no_warning() {
        assert!(is_clients("BadRequest"));
        assert!(!is_clients("ExecutorError"));
        assert!(!is_clients("ValueError"));
        assert!(!is_clients(""));
    }
}
