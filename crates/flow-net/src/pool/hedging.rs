//! One try of a call, and its hedge: the same try at another replica while the first has not answered.

use std::pin::pin;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flow_core::{CallOptions, Code};
use flow_proto::Envelope;
use futures_util::future::{Either, select};

use super::attempt::{TracedTry, UNARY};
use super::hedge::Hedges;
use super::{Lease, Pool, Tries, balance};
use crate::replica::{Replica, Reply};
use crate::status::AttemptError;

/// A try that ended.
pub(super) type FinishedAttempt = (Lease, Result<Reply, AttemptError>);

impl Pool {
    /// Calls the leased replica. If it does not answer for some time, another one is called too, and the first answer counts:
    /// the other call is cancelled. A try that fails while the other one is in progress is counted here.
    pub(super) async fn try_hedged(
        &self,
        lease: Lease,
        parts: &[Envelope],
        options: &CallOptions,
        tries: &mut Tries,
    ) -> FinishedAttempt {
        let number = tries.all + 1;
        let began = Instant::now();
        let than = lease.replica.clone();
        let mut first = pin!(self.try_once(lease, parts, options, (number, false)));
        let tried = match self.hedge_after(*tries) {
            None => Some(first.as_mut().await),
            Some(after) => tokio::time::timeout(after, &mut first).await.ok(),
        };
        let tried = match tried {
            Some(tried) => tried,
            None => match self.lease_hedge(&than) {
                None => first.await,
                Some(lease) => {
                    // In the heap, because few requests are hedged, and each one in progress would contain it.
                    let hedge = self.try_once(lease, parts, options, (number, true));
                    self.first_answer(first, Box::pin(hedge), tries).await
                }
            },
        };
        if tried.1.is_ok() {
            self.hedges(|hedges| hedges.answered_after(began.elapsed()));
        }
        tried
    }

    /// The outcome of the try that is answered first. If one of them cannot be answered, that of the other.
    async fn first_answer(
        &self,
        first: impl Future<Output = FinishedAttempt> + Unpin,
        hedge: impl Future<Output = FinishedAttempt> + Unpin,
        tries: &mut Tries,
    ) -> FinishedAttempt {
        let (tried, other, is_hedge) = match select(first, hedge).await {
            Either::Left((tried, hedge)) => (tried, Either::Right(hedge), false),
            Either::Right((tried, first)) => (tried, Either::Left(first), true),
        };
        let (lease, outcome) = tried;
        let (tried, is_hedge) = match outcome {
            Err(error) if is_no_answer(&error) => {
                // The two are one try, of which a lost process counts in any case.
                let all = tries.all;
                tries.add(&error, lease.replica.peer_spoke());
                tries.all = all;
                drop(lease);
                (other.await, !is_hedge)
            }
            outcome => ((lease, outcome), is_hedge),
        };
        if is_hedge && tried.1.is_ok() {
            self.metrics.iter().for_each(|it| it.hedges_won.add(1));
        }
        tried
    }

    /// Calls the leased replica, as the try of this number.
    pub(super) async fn try_once(
        &self,
        mut lease: Lease,
        parts: &[Envelope],
        options: &CallOptions,
        (number, is_hedge): (u32, bool),
    ) -> FinishedAttempt {
        let timer = self.metrics.as_ref().map(|it| it.begin(parts));
        let of = (UNARY, lease.replica.uri(), number);
        let mut attempt = TracedTry::begin(self.tracer.as_ref(), options, of);
        if is_hedge {
            attempt.is_hedge();
        }
        let call = lease.replica.call(parts, &self.calls, &attempt.options);
        let outcome = call.await;
        attempt.end(outcome.as_ref().err().map(|error| &error.failure));
        drop(timer);
        let now = Instant::now();
        self.record(&mut lease, outcome.as_ref().err(), now);
        lease.count(outcome.as_ref().map_or(true, Reply::is_failure), now);
        (lease, outcome)
    }

    /// After what time the next try is hedged; `None` if it is not. A request that was lost with a process may be what ended
    /// it, so it runs once at a time.
    fn hedge_after(&self, tries: Tries) -> Option<Duration> {
        if tries.lost > 0 {
            return None;
        }
        self.hedges(|hedges| hedges.after()).flatten()
    }

    /// Another replica of the same priority that can be reached, if the budget allows a hedge.
    fn lease_hedge(&self, than: &Replica) -> Option<Lease> {
        let now = Instant::now();
        let lease = self.read(|replicas| {
            let mut loads = self.loads(replicas, now);
            for (load, replica) in loads.iter_mut().zip(replicas) {
                load.is_backing_off |= std::ptr::eq(replica.as_ref(), than);
            }
            let chosen = balance::choose(&loads, balance::median(&loads), self.next_turn())?;
            let (priority, _) = than.rank();
            let is_equal = !loads[chosen].is_backing_off && loads[chosen].priority == priority;
            let is_possible = is_equal && self.hedges(Hedges::take)?;
            is_possible.then(|| Lease::new(&replicas[chosen], now))
        })?;
        tracing::debug!(
            replica = lease.replica.uri(),
            slow = than.uri(),
            "sending a request to another replica too"
        );
        self.metrics.iter().for_each(|it| it.hedges.add(1));
        Some(lease)
    }

    /// Does something with the hedges; `None` if the node has none.
    pub(super) fn hedges<T>(&self, look: impl FnOnce(&mut Hedges) -> T) -> Option<T> {
        let hedges = self.hedges.as_ref()?;
        let mut hedges: MutexGuard<'_, Hedges> =
            hedges.lock().unwrap_or_else(PoisonError::into_inner);
        Some(look(&mut hedges))
    }
}

/// Whether the other try may still be answered, and should be.
fn is_no_answer(error: &AttemptError) -> bool {
    matches!(
        error.failure.code(),
        Code::Unavailable | Code::Lost | Code::Overloaded
    )
}
