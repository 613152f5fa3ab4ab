//! The replicas of a node: gives away the least busy one, and tries again where that is allowed.

mod names;
mod traffic;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use flow_core::{Code, Failure};
use flow_proto::Envelope;

use crate::Limits;
use crate::budget::Budget;
use crate::replica::{Metadata, Replica, Reply, Terms};
use crate::retry::{self, Attempt, Policy, Verdict};
use crate::status::Miss;

pub use names::Name;
pub use traffic::Traffic;

/// The replicas of one node.
#[derive(Debug)]
pub struct Pool {
    /// Changes as names lead to other addresses.
    replicas: RwLock<Vec<Arc<Replica>>>,
    names: Vec<Name>,
    /// How often names led elsewhere.
    moves: AtomicU64,
    limits: Limits,
    /// Where the search begins, so that equals are asked in turn.
    turn: AtomicUsize,
    policy: Policy,
    budget: Mutex<Budget>,
    metadata: Metadata,
    /// None: nobody wants to know.
    traffic: Option<Traffic>,
}

/// The right to use a replica for one request; given back when dropped.
#[derive(Debug)]
pub struct Lease(Arc<Replica>);

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
            moves: AtomicU64::new(0),
            limits: Limits::default(),
            turn: AtomicUsize::new(0),
            policy,
            budget: Mutex::new(Budget::new(Instant::now())),
            metadata,
            traffic: None,
        }
    }

    /// The same with replicas behind names, which [`look_up`](Self::look_up) finds.
    #[must_use]
    pub fn with_names(mut self, names: Vec<Name>, limits: Limits) -> Self {
        self.names = names;
        self.limits = limits;
        self
    }

    /// The same, counting what goes to the replicas and comes back.
    #[must_use]
    pub fn with_traffic(mut self, traffic: Option<Traffic>) -> Self {
        self.traffic = traffic;
        self
    }

    /// All replicas.
    #[must_use]
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.read(<[_]>::to_vec)
    }

    /// Another number for each time that a replica came back or was replaced: it may be another program.
    #[must_use]
    pub fn generation(&self) -> u64 {
        let returns: u64 = self.read(|replicas| replicas.iter().map(|it| it.returns()).sum());
        returns.wrapping_add(self.moves.load(Ordering::Relaxed) << 32)
    }

    /// The replica with the fewest requests under way. One that could not be reached is taken only if
    /// all the others could not either.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn lease(&self, now: Instant) -> Result<Lease, NoReplica> {
        self.read(|replicas| {
            if let [only] = replicas {
                return Ok(Lease::of(only));
            }
            let start = self.turn.fetch_add(1, Ordering::Relaxed) % replicas.len().max(1);
            let (before, from) = replicas.split_at(start);
            let in_turn = from.iter().chain(before);
            let chosen =
                in_turn.min_by_key(|replica| (replica.is_resting(now), replica.in_flight()));
            chosen.map(Lease::of).ok_or(NoReplica)
        })
    }

    /// One request, or several parts of one, and one reply; tried again on other replicas as the pool's
    /// policy allows.
    ///
    /// # Errors
    ///
    /// If no replica replied before the deadline.
    pub async fn call(&self, parts: &[Envelope], terms: &Terms) -> Result<Reply, Failure> {
        self.budget().earn();
        let mut tries = 0;
        loop {
            tries += 1;
            let lease = self
                .lease(Instant::now())
                .map_err(|none| unavailable(&none))?;
            let time = self.traffic.as_ref().map(|it| it.begin(parts));
            let outcome = lease.0.call(parts, &self.metadata, terms).await;
            drop(time);
            let now = Instant::now();
            let failed = outcome.as_ref().err().map(|miss| miss.failure.code());
            lease.0.note(failed, now);
            let miss = match outcome {
                Ok(reply) => {
                    self.traffic.iter().for_each(|it| it.end(&reply));
                    return Ok(reply);
                }
                Err(miss) => miss,
            };
            match self.decide(&miss, tries, terms, now) {
                Verdict::Retry(wait) => {
                    tracing::debug!(failure = %miss.failure, replica = lease.0.uri(), tries, "trying again");
                    drop(lease);
                    tokio::time::sleep(wait).await;
                }
                Verdict::GiveUp => return Err(told(&miss.failure, lease.0.uri(), tries)),
            }
        }
    }

    /// The metadata that goes with each call.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn decide(&self, miss: &Miss, tries: u32, terms: &Terms, now: Instant) -> Verdict {
        let replicas = self.read(<[_]>::len);
        let attempt = Attempt {
            code: miss.failure.code(),
            tries,
            replicas: NonZeroUsize::new(replicas).unwrap_or(NonZeroUsize::MIN),
            remaining: terms.deadline.remaining(now),
            pushback: miss.pushback,
        };
        match retry::decide(self.policy, attempt) {
            Verdict::Retry(_) if miss.answered && !self.budget().take(now) => Verdict::GiveUp,
            verdict => verdict,
        }
    }

    fn read<T>(&self, look: impl FnOnce(&[Arc<Replica>]) -> T) -> T {
        look(&self.replicas.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unavailable(none: &NoReplica) -> Failure {
    Failure::new(Code::Unavailable, none.to_string())
}

/// The failure with the address it happened at, which its own text never names.
fn told(failure: &Failure, uri: &str, tries: u32) -> Failure {
    let tried = if tries == 1 {
        String::new()
    } else {
        format!(" (last of {tries} tries)")
    };
    Failure::new(
        failure.code(),
        format!("{} at `{uri}`{tried}", failure.message()),
    )
}

impl Lease {
    fn of(replica: &Arc<Replica>) -> Self {
        replica.begin();
        Self(replica.clone())
    }

    /// The replica that is leased.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests;
