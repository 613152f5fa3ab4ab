//! The replicas of a node: leases the one that `balance.rs` chooses, and tries again on others where that is allowed.

mod attempt;
mod balance;
mod hedge;
mod hedging;
mod host_name;
mod metrics;
mod names;
mod resolve;
mod service_name;
mod unusable;

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use flow_core::{CallOptions, Code, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, SingleDocumentRequestProto};
use flow_trace::Tracer;
use futures_util::future::join_all;
use futures_util::{Stream, stream};

use crate::compression::Compression;
use crate::grpc::Metadata;
use crate::replica::{NodeCalls, OpenedStream, Reached, Replica, Reply};
use crate::retry::{self, Attempt, Policy, RetryDecision};
use crate::retry_budget::RetryBudget;
use crate::status::{AttemptError, too_late};

use attempt::TracedTry;
use balance::{LastMedian, Load};
use hedge::Hedges;
use names::FollowedName;

pub use hedge::HedgeAfter;
pub use host_name::HostName;
pub use metrics::CallMetrics;
pub use names::{NameState, ReplicaName};
pub use service_name::ServiceName;

/// Maximum time that a call waits for the first lookup of its node's names. A lookup takes less, but does not end if another placement
/// arrives meanwhile.
const FIRST_LOOKUP_MAX: Duration = Duration::from_secs(10);

/// The replicas of one node.
#[derive(Debug)]
pub struct Pool {
    /// Changes with the addresses of the names.
    replicas: RwLock<Vec<Arc<Replica>>>,
    names: Vec<FollowedName>,
    /// How often the addresses of a name changed.
    address_changes: AtomicU64,
    /// Where the search for a replica begins, so that equally busy ones take turns.
    turn: AtomicUsize,
    median: LastMedian,
    policy: Policy,
    /// How long a replica that is new, or that came back, gets fewer requests than the others.
    slow_start: Duration,
    budget: Mutex<RetryBudget>,
    /// `None` if requests are never sent to a second replica.
    hedges: Option<Mutex<Hedges>>,
    calls: NodeCalls,
    /// Held by a request that was in progress in a process that was lost, while it is tried again. One at a time, so that
    /// a request that ends processes is not taken for its neighbours.
    suspect: tokio::sync::Mutex<()>,
    /// `None` if the process is not monitored.
    metrics: Option<CallMetrics>,
    /// `None` if the process exports no spans.
    tracer: Option<Tracer>,
}

/// The tries of one call so far.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    all: u32,
    lost: u32,
}

/// The right to use a replica for one request; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    replica: Arc<Replica>,
    began: Instant,
    /// Whether the time that the call took is known to the replica.
    is_timed: bool,
}

/// Documents as a replica makes them.
pub type DocumentStream =
    Pin<Box<dyn Stream<Item = Result<SingleDocumentRequestProto, Failure>> + Send>>;

/// The node has no replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no replica is running")]
pub struct NoReplica;

impl Pool {
    /// A pool of these replicas.
    #[must_use]
    pub fn new(replicas: Vec<Arc<Replica>>, policy: Policy, metadata: Metadata) -> Self {
        Self {
            replicas: RwLock::new(replicas),
            names: Vec::new(),
            address_changes: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            median: LastMedian::default(),
            policy,
            slow_start: Duration::ZERO,
            budget: Mutex::new(RetryBudget::new(Instant::now())),
            hedges: None,
            calls: NodeCalls {
                metadata,
                compression: None,
            },
            suspect: tokio::sync::Mutex::new(()),
            metrics: None,
            tracer: None,
        }
    }

    /// Adds names whose replicas [`follow_names`](Self::follow_names) finds.
    #[must_use]
    pub fn with_names(mut self, names: Vec<ReplicaName>) -> Self {
        self.names = names.into_iter().map(FollowedName::new).collect();
        self
    }

    /// The same pool, in which replicas begin to take turns at this place. Gateways that share replicas need different places: with the
    /// same one, all of them would send their first requests to the same replica, their second ones to the next, and so on.
    #[must_use]
    pub fn with_first_turn(mut self, turn: usize) -> Self {
        self.turn = AtomicUsize::new(turn);
        self
    }

    /// The same pool, in which a replica that is new, or that came back, gets fewer requests than the others for this time.
    #[must_use]
    pub fn with_slow_start(mut self, slow_start: Duration) -> Self {
        self.slow_start = slow_start;
        self
    }

    /// The same pool, whose requests are compressed, except over Unix sockets.
    #[must_use]
    pub fn with_compression(mut self, compression: Option<Compression>) -> Self {
        self.calls.compression = compression;
        self
    }

    /// The same pool, which after some time sends a request to a second replica too. Only for requests that may run twice.
    #[must_use]
    pub fn with_hedge(mut self, after: Option<HedgeAfter>) -> Self {
        self.hedges = after.map(|after| Mutex::new(Hedges::new(after)));
        self
    }

    /// The same pool, which counts its calls.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Option<CallMetrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// The same pool, which makes a span of each try.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Option<Tracer>) -> Self {
        self.tracer = tracer;
        self
    }

    /// All replicas.
    #[must_use]
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.read(<[_]>::to_vec)
    }

    /// A different number each time that a replica came back or was replaced: it may be a different program.
    #[must_use]
    pub fn generation(&self) -> u64 {
        let recoveries: u64 = self.read(|replicas| replicas.iter().map(|it| it.recoveries()).sum());
        recoveries.wrapping_add(self.address_changes.load(Ordering::Relaxed) << 32)
    }

    /// The replica with the fewest requests in progress. A replica that is much slower than the others, or fails most of
    /// its calls, gets fewer, and one that recently could not be reached is taken only if no other could be reached either.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn lease(&self, now: Instant) -> Result<Lease, NoReplica> {
        self.read(|replicas| {
            if let [only] = replicas {
                set_wait(only, || false);
                return Ok(Lease::new(only, now));
            }
            let loads = self.loads(replicas, now);
            for (replica, load) in replicas.iter().zip(&loads) {
                replica.set_failing(load.is_failing);
            }
            let median = balance::median(&loads);
            self.median.set(median);
            let chosen = balance::choose(&loads, median, self.next_turn()).ok_or(NoReplica)?;
            let chosen = &replicas[chosen];
            set_wait(chosen, || {
                let mut others = replicas.iter().zip(&loads);
                others.any(|(other, load)| !load.is_backing_off && other.is_connected())
            });
            Ok(Lease::new(chosen, now))
        })
    }

    /// Leases a replica for a call. If there is none, waits for the first lookup of each name.
    async fn lease_within(&self, options: &CallOptions) -> Result<Lease, Failure> {
        if let Ok(lease) = self.lease(Instant::now()) {
            return Ok(lease);
        }
        // On the heap: it is needed only while a gateway starts, and would enlarge the future of every request.
        Box::pin(self.first_lookups(options)).await;
        let lease = self.lease(Instant::now());
        lease.map_err(|no_replica| self.unavailable(no_replica))
    }

    async fn first_lookups(&self, options: &CallOptions) {
        let all = join_all(self.names.iter().map(FollowedName::first_lookup));
        let remaining = options.deadline.remaining(Instant::now());
        let within = remaining.map_or(FIRST_LOOKUP_MAX, |it| it.min(FIRST_LOOKUP_MAX));
        // The call fails because it has no replica, which says more than that it was late.
        drop(tokio::time::timeout(within, all).await);
    }

    /// Gives back a replica that answered at this time. [`call`](Self::call) does so itself; this is for simulations, whose
    /// replicas are not called.
    pub fn answered(&self, mut lease: Lease, now: Instant) {
        self.record(&mut lease, None, now);
    }

    fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    fn loads(&self, replicas: &[Arc<Replica>], now: Instant) -> Vec<Load> {
        let load = |replica: &Arc<Replica>| {
            let pace = replica.known_pace(now);
            let (priority, weight) = replica.rank();
            Load {
                is_backing_off: replica.is_backing_off(now),
                in_flight: replica.in_flight(),
                usual: pace.usual,
                is_unheard: pace.is_unheard,
                share: balance::share(pace.reachable, self.slow_start),
                is_failing: pace.fails,
                is_ejected: replica.is_ejected(),
                priority,
                weight,
            }
        };
        let mut loads: Vec<Load> = replicas.iter().map(load).collect();
        balance::forgive_common_failures(&mut loads);
        loads
    }

    /// Records the outcome of a call: whether its replica is avoided from now on, and whether it is slow.
    fn record(&self, lease: &mut Lease, error: Option<&AttemptError>, now: Instant) {
        lease.record(error, now, self.metrics.as_ref());
        let replica = &lease.replica;
        // With one replica, none is computed.
        let median = self.median.get().filter(|_| self.read(<[_]>::len) > 1);
        let usual = replica.known_pace(now).usual;
        replica.set_slow(balance::is_slow(replica.is_slow(), usual, median), now);
    }

    /// One request, or several parts of one, and one reply; tried again on other replicas as the pool's policy
    /// allows.
    ///
    /// # Errors
    ///
    /// If no replica replied before the deadline.
    pub async fn call(&self, parts: &[Envelope], options: &CallOptions) -> Result<Reply, Failure> {
        self.budget().earn();
        self.hedges(Hedges::earn);
        let mut tries = Tries::default();
        loop {
            let suspect = self.suspect(tries, options).await?;
            let lease = self.lease_within(options).await?;
            let (lease, outcome) = match self.hedges(|_| ()) {
                None => {
                    let of = (tries.all + 1, false);
                    self.try_once(lease, parts, options, of).await
                }
                // In a box, so that requests to other nodes do not reserve space for it.
                Some(()) => Box::pin(self.try_hedged(lease, parts, options, &mut tries)).await,
            };
            drop(suspect);
            match outcome {
                Ok(reply) => {
                    self.metrics.iter().for_each(|it| it.end(&reply));
                    return Ok(reply);
                }
                Err(error) => {
                    tries.add(&error, lease.replica.peer_spoke());
                    let id = request_id(parts.first().and_then(|it| it.header.as_ref()));
                    let failed = (&error, &lease, id);
                    let wait = self.retry_after(failed, tries, (options, Instant::now()))?;
                    drop(lease);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// One document in, a stream of documents out; tried again on other replicas, as the pool's policy allows,
    /// until the first document.
    ///
    /// # Errors
    ///
    /// If no replica opened the stream before the deadline.
    pub async fn stream(
        &self,
        request: &SingleDocumentRequestProto,
        options: &CallOptions,
    ) -> Result<DocumentStream, Failure> {
        self.budget().earn();
        let mut tries = Tries::default();
        loop {
            let suspect = self.suspect(tries, options).await?;
            let mut lease = self.lease_within(options).await?;
            let of = (attempt::STREAM, lease.replica.uri(), tries.all + 1);
            let attempt = TracedTry::begin(self.tracer.as_ref(), options, of);
            let call = lease.replica.stream(request, &self.calls, &attempt.options);
            let outcome = call.await;
            attempt.end(outcome.as_ref().err().map(|error| &error.failure));
            drop(suspect);
            let now = Instant::now();
            self.record(&mut lease, outcome.as_ref().err(), now);
            match outcome {
                Ok(opened) => return Ok(documents(opened, lease, self.metrics.clone())),
                Err(error) => {
                    lease.count(true, now);
                    tries.add(&error, lease.replica.peer_spoke());
                    let failed = (&error, &lease, request_id(request.header.as_ref()));
                    let wait = self.retry_after(failed, tries, (options, now))?;
                    drop(lease);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// The right to try a request again that was in progress in a process that was lost; `None` for others.
    async fn suspect(
        &self,
        tries: Tries,
        options: &CallOptions,
    ) -> Result<Option<tokio::sync::MutexGuard<'_, ()>>, Failure> {
        if tries.lost == 0 {
            return Ok(None);
        }
        let turn = self.suspect.lock();
        match options.deadline.instant() {
            None => Ok(Some(turn.await)),
            Some(end) => match tokio::time::timeout_at(end.into(), turn).await {
                Ok(turn) => Ok(Some(turn)),
                Err(_elapsed) => Err(too_late()),
            },
        }
    }

    /// When a failed call may be tried again; its failure, if not at all.
    fn retry_after(
        &self,
        (error, lease, request_id): (&AttemptError, &Lease, &str),
        tries: Tries,
        (options, now): (&CallOptions, Instant),
    ) -> Result<Duration, Failure> {
        let uri = lease.replica.uri();
        match self.decide(error, tries, options, now) {
            RetryDecision::Retry(wait) => {
                tracing::debug!(
                    request_id,
                    failure = %error.failure,
                    replica = uri,
                    tries = tries.all,
                    "trying again"
                );
                self.metrics.iter().for_each(|it| it.retries.add(1));
                Ok(wait)
            }
            RetryDecision::GiveUp => Err(with_address(&error.failure, uri, tries)),
        }
    }

    fn decide(
        &self,
        error: &AttemptError,
        tries: Tries,
        options: &CallOptions,
        now: Instant,
    ) -> RetryDecision {
        let replicas = self.read(<[_]>::len);
        let attempt = Attempt {
            code: error.failure.code(),
            tries: tries.all,
            lost: tries.lost,
            replicas: NonZeroUsize::new(replicas).unwrap_or(NonZeroUsize::MIN),
            remaining: options.deadline.remaining(now),
            pushback: error.pushback,
        };
        match retry::decide(self.policy, attempt) {
            RetryDecision::Retry(_) if error.answered && !self.budget().take(now) => {
                RetryDecision::GiveUp
            }
            verdict => verdict,
        }
    }

    fn read<T>(&self, look: impl FnOnce(&[Arc<Replica>]) -> T) -> T {
        look(&self.replicas.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the failure of a call that finds no replica. If a name could not be looked up, it gives that as the cause.
    fn unavailable(&self, no_replica: NoReplica) -> Failure {
        let unanswered = self.names.iter().find_map(|it| {
            let failure = it.failure()?;
            let name = it.name.uri();
            Some(format!(
                "{no_replica}: no address of `{name}` is known: {failure}"
            ))
        });
        let message = unanswered.unwrap_or_else(|| no_replica.to_string());
        Failure::new(Code::Unavailable, message)
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, RetryBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The documents of an open stream, up to its end or its first failure.
fn documents(opened: OpenedStream, lease: Lease, metrics: Option<CallMetrics>) -> DocumentStream {
    Box::pin(stream::unfold(
        Some((opened, lease, metrics)),
        next_document,
    ))
}

type Open = Option<(OpenedStream, Lease, Option<CallMetrics>)>;

async fn next_document(open: Open) -> Option<(Result<SingleDocumentRequestProto, Failure>, Open)> {
    let (mut opened, mut lease, metrics) = open?;
    match opened.next().await {
        Ok(None) => {
            lease.count(false, Instant::now());
            None
        }
        Ok(Some(document)) => Some((Ok(document), Some((opened, lease, metrics)))),
        Err(error) => {
            let now = Instant::now();
            lease.record(Some(&error), now, metrics.as_ref());
            lease.count(true, now);
            let failure = with_address(
                &error.failure,
                lease.replica.uri(),
                Tries { all: 1, lost: 0 },
            );
            Some((Err(failure), None))
        }
    }
}

/// Decides how long a call waits if its replica has to be connected first: only briefly if another one is connected.
fn set_wait(leased: &Replica, is_another_connected: impl FnOnce() -> bool) {
    if !leased.is_connected() {
        leased.wait_briefly(is_another_connected());
    }
}

fn request_id(header: Option<&HeaderProto>) -> &str {
    header.map_or("", |it| it.request_id.as_str())
}

/// The failure with the address where it happened, which the failure itself does not contain.
fn with_address(failure: &Failure, uri: &str, tries: Tries) -> Failure {
    let tried = match tries {
        Tries { lost, .. } if lost >= retry::LOST_MAX => {
            format!(
                " ({lost} connections were lost while it was in progress; it is not tried again)"
            )
        }
        Tries { all: 0 | 1, .. } => String::new(),
        Tries { all, .. } => format!(" (last of {all} tries)"),
    };
    Failure::new(
        failure.code(),
        format!("{} at `{uri}`{tried}", failure.message()),
    )
}

impl Tries {
    /// Counts a try that failed. No process was lost where none had sent anything.
    fn add(&mut self, error: &AttemptError, peer_spoke: bool) {
        self.all += 1;
        let is_lost = error.failure.code() == Code::Lost && !error.answered && peer_spoke;
        self.lost += u32::from(is_lost);
    }
}

impl Lease {
    fn new(replica: &Arc<Replica>, began: Instant) -> Self {
        replica.begin(began);
        Self {
            replica: replica.clone(),
            began,
            is_timed: false,
        }
    }

    /// Counts the call, which ended now.
    fn count(&self, failed: bool, now: Instant) {
        let took = now.duration_since(self.began);
        self.replica.calls().count(took, failed);
    }

    /// Records what a call shows about the replica, and counts one that is avoided from now on.
    fn record(
        &mut self,
        error: Option<&AttemptError>,
        now: Instant,
        metrics: Option<&CallMetrics>,
    ) {
        if !self.is_timed {
            let took = now.duration_since(self.began);
            match error.map(|it| it.failure.code()) {
                None => self.replica.answered_after(took),
                Some(Code::ExecutorFailed) => self.replica.failed(),
                Some(Code::DeadlineExceeded) => self.replica.abandoned_after(took),
                // A call that was refused or lost says nothing of how quickly calls are answered.
                Some(_) => {}
            }
        }
        self.is_timed = true;
        let reached = error.map_or(Reached::Yes, Reached::of);
        let is_ejected = self.replica.record(reached, now);
        if let Some(metrics) = metrics.filter(|_| is_ejected) {
            metrics.ejections.add(1);
        }
    }

    /// The leased replica.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.replica
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_timed {
            self.replica.abandoned_after(self.began.elapsed());
        }
        self.replica.end();
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
