//! Ends requests whose bytes arrive too slowly: each holds memory and a place while it waits.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

/// Time that a message or a body may wait for its bytes, and the bytes that earn it a second more. A client on a slow line
/// sends some hundred times as many.
const WAIT_MAX: Duration = Duration::from_secs(30);
const BYTES_A_SECOND: usize = 1024;

/// Time that the first message of a call may take. A client that makes its first document when the call has begun, such as one
/// that loads a model, needs some of it.
const FIRST_MAX: Duration = Duration::from_secs(120);

/// How long a message, or a body, has waited for its bytes. Only the time in which it is polled counts.
#[derive(Debug, Default)]
pub(super) struct SlowSender {
    waited: Duration,
    waits_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SlowSender {
    /// Notes that bytes have arrived. `is_same`: they belong to what was waited for, and more is missing.
    pub(super) fn arrived(&mut self, is_same: bool) {
        let waited = self.waits_since.take().map(|since| since.elapsed());
        self.waited = match is_same {
            true => self.waited + waited.unwrap_or_default(),
            false => Duration::ZERO,
        };
    }

    /// Ready with the failure once it has waited too long. `read` bytes of it have arrived.
    pub(super) fn poll_waiting(&mut self, read: usize, context: &mut Context<'_>) -> Poll<Status> {
        let allowed = allowed(read);
        self.poll_for(allowed, context).map(|()| {
            Status::invalid_argument(format!(
                "the request arrives too slowly: {read} bytes in {} s; send at least {BYTES_A_SECOND} a second",
                allowed.as_secs()
            ))
        })
    }

    /// Ready with the failure once the first message of a call has not come for too long.
    pub(super) fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        self.poll_for(FIRST_MAX, context).map(|()| {
            Status::deadline_exceeded(format!(
                "no message within {} s after the call began; send the first one sooner",
                FIRST_MAX.as_secs()
            ))
        })
    }

    /// Ready once it has waited for so long.
    fn poll_for(&mut self, allowed: Duration, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let end = since + allowed.saturating_sub(self.waited);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(context)
    }
}

/// Time in which this many bytes have to arrive.
fn allowed(read: usize) -> Duration {
    WAIT_MAX + Duration::from_secs((read / BYTES_A_SECOND) as u64)
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_ended_after_half_a_minute() {
        let mut sender = SlowSender::default();
        let begun = Instant::now();
        let slow = poll_fn(|context| sender.poll_waiting(10, context)).await;
        assert_eq!(begun.elapsed(), WAIT_MAX);
        assert!(slow.message().contains("10 bytes in 30 s"), "{slow}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_earn_time_and_trickling_does_not() {
        let mut sender = SlowSender::default();
        let mut read = 0;
        // A byte every ten seconds.
        for _ in 0..3 {
            assert!(poll!(poll_fn(|context| sender.poll_waiting(read, context))).is_pending());
            tokio::time::advance(Duration::from_secs(9)).await;
            assert!(poll!(poll_fn(|context| sender.poll_waiting(read, context))).is_pending());
            read += 1;
            sender.arrived(true);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(poll!(poll_fn(|context| sender.poll_waiting(read, context))).is_pending());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(poll!(poll_fn(|context| sender.poll_waiting(read, context))).is_ready());
        // Ten kilobytes more earn ten seconds.
        assert!(poll!(poll_fn(|context| sender.poll_waiting(10 << 10, context))).is_pending());
        sender.arrived(false);
        assert!(poll!(poll_fn(|context| sender.poll_waiting(0, context))).is_pending());
    }
}
