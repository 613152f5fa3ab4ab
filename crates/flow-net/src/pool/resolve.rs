//! Keeps the replicas of a pool up to date with the addresses of its host names.
//!
//! A name of a single machine stays a name: the connection goes to whichever of its addresses answers, of both
//! families. A name of several machines, such as a headless service in Kubernetes, becomes one replica for each
//! address of one family, because a machine often has an address of each family. Names are resolved again from
//! time to time, and replicas whose addresses are still there are kept.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Pool;
use super::host_name::{HostName, machines};
use crate::replica::{Replica, uri_of};

impl Pool {
    /// Whether the pool has host names to resolve.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Resolves each host name. A name that cannot be resolved keeps its replicas.
    pub async fn resolve(&self) {
        for name in &self.names {
            match tokio::net::lookup_host(name.host_and_port()).await {
                Ok(addresses) => self.update(name, addresses),
                Err(error) => {
                    tracing::debug!(name = name.uri(), %error, "cannot resolve host name");
                }
            }
        }
    }

    /// Replaces the replicas behind a name by those at these addresses.
    fn update(&self, name: &HostName, addresses: impl Iterator<Item = SocketAddr>) {
        let machines = machines(addresses);
        let known = self.replicas();
        let replica = |at: &SocketAddr| {
            let uri = uri_of(*at);
            let is_same = |it: &&Arc<Replica>| it.uri() == uri && name.is_of(it);
            let known = known.iter().find(is_same).cloned();
            known.or_else(|| {
                Some(Arc::new(
                    Replica::resolved(name.uri(), *at, self.limits).ok()?,
                ))
            })
        };
        let mut found: Vec<_> = machines.iter().filter_map(replica).collect();
        if found.is_empty() {
            let unresolved = known.iter().find(|it| it.uri() == name.uri());
            found.push(unresolved.unwrap_or(name.unresolved()).clone());
        }
        let is_found = |it: &&Arc<Replica>| found.iter().any(|other| Arc::ptr_eq(it, other));
        let of_name = known.iter().filter(|it| name.is_of(it));
        if of_name.clone().count() == found.len() && of_name.clone().all(|it| is_found(&it)) {
            return;
        }
        tracing::info!(
            name = name.uri(),
            replicas = found.len(),
            "host name has new addresses"
        );
        let mut replicas = self
            .replicas
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        replicas.retain(|it| !name.is_of(it));
        replicas.extend(found);
        self.address_changes.fetch_add(1, Ordering::Relaxed);
    }
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

    fn uris(pool: &Pool) -> Vec<String> {
        let replicas = pool.replicas();
        replicas.iter().map(|it| it.uri().to_owned()).collect()
    }

    #[tokio::test]
    async fn replicas_follow_the_addresses_of_their_name() {
        let limits = Limits::default();
        let name = HostName::new("workers", 5, limits).unwrap();
        let replicas = vec![name.unresolved().clone()];
        let pool = Pool::new(replicas, Policy::default(), Metadata::new());
        let pool = pool.with_names(vec![name], limits);
        let update = |texts| pool.update(&pool.names[0], addresses(texts).into_iter());

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
                let service = GrpcService::new(tonic::service::Routes::new(service));
                Server::new(listener, service).serve(&drain, async {}).await;
            });
        }
        let limits = Limits::default();
        let name = HostName::new("localhost", port, limits).unwrap();
        let pool = Pool::new(Vec::new(), Policy::default(), Metadata::new());
        let pool = pool.with_names(vec![name], limits);
        pool.update(&pool.names[0], addresses.into_iter());
        assert_eq!(pool.replicas().len(), 2);
        for replica in pool.replicas() {
            assert!(replica.is_serving(Deadline::NEVER).await.unwrap());
        }
    }
}
