//! The replicas of a node: gives away the least busy one, and tries again where that is allowed.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flow_core::{Code, Deadline, Failure};
use flow_proto::Envelope;

use crate::replica::{Metadata, Replica};
use crate::retry::{self, Attempt, Policy, Verdict};

/// The replicas of one node.
#[derive(Debug)]
pub struct Pool {
    replicas: Vec<Arc<Replica>>,
    /// Where the search begins, so that equals are asked in turn.
    turn: AtomicUsize,
    policy: Policy,
    metadata: Metadata,
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
            replicas,
            turn: AtomicUsize::new(0),
            policy,
            metadata,
        }
    }

    /// All replicas.
    #[must_use]
    pub fn replicas(&self) -> &[Arc<Replica>] {
        &self.replicas
    }

    /// The replica with the fewest requests under way. One that could not be reached is taken only if
    /// all the others could not either.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn lease(&self, now: Instant) -> Result<Lease, NoReplica> {
        let replicas = &self.replicas;
        if let [only] = replicas.as_slice() {
            return Ok(Lease::of(only));
        }
        let start = self.turn.fetch_add(1, Ordering::Relaxed) % replicas.len().max(1);
        let (before, from) = replicas.split_at(start);
        let in_turn = from.iter().chain(before);
        let chosen = in_turn.min_by_key(|replica| (replica.is_resting(now), replica.in_flight()));
        chosen.map(Lease::of).ok_or(NoReplica)
    }

    /// One request, one reply; tried again on other replicas as the pool's policy allows.
    ///
    /// # Errors
    ///
    /// If no replica replied before the deadline.
    pub async fn call(&self, request: &Envelope, deadline: Deadline) -> Result<Envelope, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let lease = self
                .lease(Instant::now())
                .map_err(|none| unavailable(&none))?;
            let outcome = lease
                .0
                .single(request.clone(), &self.metadata, deadline)
                .await;
            let now = Instant::now();
            lease.0.note(&outcome, now);
            let failure = match outcome {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let attempt = self.attempt(&failure, tries, deadline.remaining(now));
            match retry::decide(self.policy, attempt) {
                Verdict::Retry(wait) => {
                    tracing::debug!(%failure, replica = lease.0.uri(), tries, "trying again");
                    drop(lease);
                    tokio::time::sleep(wait).await;
                }
                Verdict::GiveUp => return Err(told(&failure, lease.0.uri(), tries)),
            }
        }
    }

    /// The metadata that goes with each call.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn attempt(
        &self,
        failure: &Failure,
        tries: u32,
        remaining: Option<std::time::Duration>,
    ) -> Attempt {
        let replicas = NonZeroUsize::new(self.replicas.len()).unwrap_or(NonZeroUsize::MIN);
        Attempt {
            code: failure.code(),
            tries,
            replicas,
            remaining,
        }
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
mod tests {
    use super::*;
    use crate::Limits;

    fn pool(count: u16) -> Pool {
        let replica = |port| Replica::new(&format!("http://127.0.0.1:{port}"), Limits::default());
        let replicas = (1..=count)
            .map(|port| Arc::new(replica(port).unwrap()))
            .collect();
        Pool::new(replicas, Policy::default(), Metadata::new())
    }

    fn unreachable() -> Result<(), Failure> {
        Err(Failure::new(Code::Unavailable, "refused"))
    }

    #[tokio::test]
    async fn the_least_busy_replica_is_given_away() {
        let pool = pool(3);
        let leases: Vec<Lease> = (0..6)
            .map(|_| pool.lease(Instant::now()).unwrap())
            .collect();
        for replica in pool.replicas().iter() {
            assert_eq!(replica.in_flight(), 2);
        }
        drop(leases);
        assert!(
            pool.replicas()
                .iter()
                .all(|replica| replica.in_flight() == 0)
        );
    }

    #[tokio::test]
    async fn a_replica_that_cannot_be_reached_rests_and_comes_back() {
        let pool = pool(2);
        let now = Instant::now();
        let replicas = pool.replicas();
        replicas[0].note(&unreachable(), now);
        for _ in 0..4 {
            assert_eq!(pool.lease(now).unwrap().replica().uri(), replicas[1].uri());
        }
        assert!(!replicas[0].is_resting(now + std::time::Duration::from_millis(50)));
        replicas[0].note(&unreachable(), now);
        replicas[0].note(&Ok(()), now);
        assert!(!replicas[0].is_resting(now));
    }

    #[tokio::test]
    async fn if_all_rest_one_is_asked_all_the_same() {
        let pool = pool(2);
        let now = Instant::now();
        for replica in pool.replicas().iter() {
            replica.note(&unreachable(), now);
        }
        assert!(pool.lease(now).is_ok());
        assert_eq!(self::pool(0).lease(now).unwrap_err(), NoReplica);
    }
}
