//! Keeps the replicas of a pool up to date with the addresses of its names.
//!
//! A name of a single machine stays a name: the connection goes to whichever of its addresses answers, of both
//! families. A name of several machines, such as a headless service in Kubernetes, becomes one replica for each
//! address of one family, because a machine often has an address of each family. A service becomes one replica for each
//! instance in its SRV records.
//!
//! A name is looked up again when its answer expires. Replicas whose addresses are still in the answer are kept. The others get
//! no more requests, and finish those in progress. If a lookup fails, the name keeps its replicas.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flow_core::Chain;
use futures_util::future::join_all;

use super::Pool;
use super::host_name::{HostName, RESOLVE_EVERY};
use super::names::{FollowedName, NameState, ReplicaName};
use super::service_name::ServiceName;
use crate::replica::Replica;

/// Time until a lookup is repeated for a name that has never had an answer. It is short, because calls fail until the first answer.
const FIRST_ANSWER_AGAIN: Duration = Duration::from_secs(1);

/// Time for the lookup of a host. The system's resolver has limits of its own, which are about as long for two name servers
/// that do not answer, but other sources of names need not have any.
const LOOKUP_MAX: Duration = Duration::from_secs(20);

impl Pool {
    /// Returns the result of the last lookup of each name.
    pub fn name_states(&self) -> impl Iterator<Item = NameState> + '_ {
        self.names.iter().map(FollowedName::state)
    }

    /// Looks up the names that have not been looked up yet.
    pub async fn resolve_new_names(&self) {
        let new = self.names.iter().filter(|name| name.due().is_none());
        join_all(new.map(|name| self.resolve(name))).await;
    }

    /// Looks up each name whenever its answer expires, until the future is dropped.
    pub async fn follow_names(&self) {
        let follow = async |name: &FollowedName| loop {
            if let Some(due) = name.due() {
                tokio::time::sleep_until(due.into()).await;
            }
            self.resolve(name).await;
        };
        join_all(self.names.iter().map(follow)).await;
    }

    async fn resolve(&self, name: &FollowedName) {
        match &name.name {
            ReplicaName::Host(host) => self.resolve_host(name, host).await,
            ReplicaName::Service(service) => self.resolve_service(name, service).await,
        }
        name.was_looked_up();
    }

    async fn resolve_host(&self, name: &FollowedName, host: &HostName) {
        match in_time(tokio::net::lookup_host(host.host_and_port())).await {
            Ok(addresses) => {
                name.succeeded(RESOLVE_EVERY);
                self.update_host(host, addresses);
            }
            Err(error) => name.failed(error.to_string(), RESOLVE_EVERY),
        }
    }

    async fn resolve_service(&self, name: &FollowedName, service: &ServiceName) {
        match service.look_up().await {
            Ok(answer) => {
                name.succeeded(answer.valid_for);
                let found = service.replicas(&answer.instances, &self.replicas());
                let is_of_service = |it: &Replica| service.is_of(it);
                self.replace(is_of_service, service.uri(), (found, answer.left_out));
            }
            Err(failure) => {
                let again_in = failure.valid_for().unwrap_or(match name.state() {
                    NameState::Unknown => FIRST_ANSWER_AGAIN,
                    NameState::Resolved | NameState::Stale => RESOLVE_EVERY,
                });
                name.failed(Chain(&failure).to_string(), again_in);
            }
        }
    }

    /// Replaces the replicas of a host with those at these addresses.
    fn update_host(&self, host: &HostName, addresses: impl Iterator<Item = SocketAddr>) {
        let (found, left_out) = host.replicas(addresses, &self.replicas());
        self.replace(|it| host.is_of(it), host.uri(), (found, left_out));
    }

    /// Replaces the replicas of a name with those that the lookup found.
    fn replace(
        &self,
        is_of_name: impl Fn(&Replica) -> bool,
        name: &str,
        (found, left_out): (Vec<Arc<Replica>>, usize),
    ) {
        let known = self.replicas();
        let is_found = |it: &&Arc<Replica>| found.iter().any(|other| Arc::ptr_eq(it, other));
        let of_name = known.iter().filter(|it| is_of_name(it));
        if of_name.clone().count() == found.len() && of_name.clone().all(|it| is_found(&it)) {
            return;
        }
        tracing::info!(
            name,
            replicas = found.len(),
            left_out,
            "name has new addresses"
        );
        let mut replicas = self
            .replicas
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        replicas.retain(|it| !is_of_name(it));
        replicas.extend(found);
        self.address_changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// The result of a lookup, or an error if it takes too long.
async fn in_time<T>(lookup: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let found = tokio::time::timeout(LOOKUP_MAX, lookup).await;
    found.unwrap_or_else(|_elapsed| {
        let text = format!("no answer within {} s", LOOKUP_MAX.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flow_core::Deadline;
    use tokio::task::JoinSet;

    use super::*;
    use crate::retry::Policy;
    use crate::{Drain, GrpcService, Health, Limits, Listener, Metadata, Server};

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn host(pool: &Pool) -> &HostName {
        match &pool.names[0].name {
            ReplicaName::Host(host) => host,
            ReplicaName::Service(_) => panic!("it is a host"),
        }
    }

    fn uris(pool: &Pool) -> Vec<String> {
        let replicas = pool.replicas();
        replicas.iter().map(|it| it.uri().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_without_an_answer_ends_after_some_time() {
        let begun = tokio::time::Instant::now();
        let found: io::Result<()> = in_time(std::future::pending()).await;
        assert_eq!(begun.elapsed(), LOOKUP_MAX);
        assert_eq!(found.unwrap_err().to_string(), "no answer within 20 s");
    }

    #[tokio::test]
    async fn replicas_follow_the_addresses_of_their_name() {
        let limits = Limits::default();
        let name = HostName::new("workers", 5, limits).unwrap();
        let replicas = vec![name.unresolved().clone()];
        let pool = Pool::new(replicas, Policy::default(), Metadata::new());
        let pool = pool.with_names(vec![ReplicaName::Host(name)]);
        let update = |texts| pool.update_host(host(&pool), addresses(texts).into_iter());

        update(&["10.0.0.1:5", "10.0.0.2:5"]);
        assert_eq!(uris(&pool), ["http://10.0.0.1:5", "http://10.0.0.2:5"]);
        let second = pool.replicas()[1].clone();
        update(&["10.0.0.3:5", "10.0.0.2:5"]);
        assert_eq!(uris(&pool), ["http://10.0.0.2:5", "http://10.0.0.3:5"]);
        assert!(Arc::ptr_eq(&pool.replicas()[0], &second));
        update(&["10.0.0.2:5"]);
        assert_eq!(uris(&pool), ["http://workers:5"]);
    }

    #[tokio::test]
    async fn each_machine_behind_a_name_answers() {
        let first = Listener::bind("127.0.0.1", 0).await.unwrap();
        let port = first.local_addr().port();
        let second = Listener::bind("127.0.0.2", port).await.unwrap();
        let addresses = [first.local_addr(), second.local_addr()];
        let mut servers = JoinSet::new();
        for listener in [first, second] {
            let (health, service) = Health::new(&[]).await;
            health.set_serving(true).await;
            servers.spawn(async move {
                let drain = Drain::new(Duration::ZERO);
                let service = GrpcService::new(crate::GrpcRoutes::new(service));
                Server::new(listener, service).serve(&drain, async {}).await;
            });
        }
        let limits = Limits::default();
        let name = HostName::new("localhost", port, limits).unwrap();
        let pool = Pool::new(Vec::new(), Policy::default(), Metadata::new());
        let pool = pool.with_names(vec![ReplicaName::Host(name)]);
        pool.update_host(host(&pool), addresses.into_iter());
        assert_eq!(pool.replicas().len(), 2);
        for replica in pool.replicas() {
            assert!(replica.is_serving(Deadline::NEVER).await.unwrap());
        }
    }
}
