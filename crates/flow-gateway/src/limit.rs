//! The limit on requests in progress.

use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::{Code, Failure};

use crate::sync::{Arc, AtomicUsize, Ordering, OwnedSemaphorePermit, Semaphore};

/// When a refused caller may try again: by then a good part of the requests in progress has ended.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The right to run one request; given back when dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

/// How many requests the whole gateway may have in progress. Clones share the limit.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrencyLimit {
    max: NonZeroUsize,
    semaphore: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// Counts a caller that waits for a permit.
struct Waiting<'l>(&'l AtomicUsize);

impl<'l> Waiting<'l> {
    fn begin(waiting: &'l AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConcurrencyLimit {
    pub(crate) fn new(max: NonZeroUsize) -> Self {
        let permits = max.get().min(Semaphore::MAX_PERMITS);
        let semaphore = Arc::new(Semaphore::new(permits));
        Self {
            max,
            semaphore,
            waiting: Arc::default(),
        }
    }

    pub(crate) fn max(&self) -> NonZeroUsize {
        self.max
    }

    /// How many requests have a permit.
    pub(crate) fn in_flight(&self) -> usize {
        let permits = self.max.get().min(Semaphore::MAX_PERMITS);
        permits - self.semaphore.available_permits().min(permits)
    }

    /// How many callers wait for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A permit, if one is available now.
    pub(crate) fn try_acquire(&self) -> Option<Permit> {
        self.semaphore.clone().try_acquire_owned().ok()
    }

    /// A permit, as soon as one is available; waiting callers get theirs in the order in which they asked.
    pub(crate) async fn acquire(self) -> Permit {
        let _waiting = Waiting::begin(&self.waiting);
        match self.semaphore.acquire_owned().await {
            Ok(permit) => permit,
            Err(_closed) => unreachable!("the semaphore is never closed"),
        }
    }

    /// The failure of a request that gets no permit and does not wait for one.
    pub(crate) fn refusal(&self) -> Failure {
        let message = format!(
            "the gateway is busy with {} requests, its limit (`in_flight_max`); try again in {} ms, or send on \
             a stream, which waits",
            self.max,
            RETRY_AFTER.as_millis()
        );
        Failure::new(Code::Overloaded, message).with_retry_after(RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn limit(max: usize) -> ConcurrencyLimit {
        ConcurrencyLimit::new(NonZeroUsize::new(max).unwrap())
    }

    #[test]
    fn permits_are_available_up_to_the_limit() {
        let limit = limit(2);
        let first = limit.try_acquire();
        let second = limit.try_acquire();
        assert!(first.is_some() && second.is_some());
        assert!(limit.try_acquire().is_none());
        drop(first);
        assert!(limit.try_acquire().is_some());
    }

    #[test]
    fn waiting_callers_get_permits_in_their_order() {
        let limit = limit(1);
        let permit = limit.try_acquire();
        let mut first = Box::pin(limit.clone().acquire());
        let mut second = Box::pin(limit.clone().acquire());
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(limit.waiting(), 2);
        drop(permit);
        assert!(second.as_mut().now_or_never().is_none());
        assert!(
            limit.try_acquire().is_none(),
            "the first caller has the permit"
        );
        assert!(first.now_or_never().is_some());
        assert!(second.now_or_never().is_some());
        assert_eq!(limit.waiting(), 0);
    }

    #[test]
    fn a_refusal_names_the_limit_and_a_time() {
        let refusal = limit(1).refusal();
        assert_eq!(refusal.code(), Code::Overloaded);
        assert_eq!(refusal.retry_after(), Some(RETRY_AFTER));
        assert_eq!(
            refusal.message(),
            "the gateway is busy with 1 requests, its limit (`in_flight_max`); try again in 500 ms, or \
             send on a stream, which waits"
        );
    }
}
