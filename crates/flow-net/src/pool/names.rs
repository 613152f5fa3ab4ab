//! Every address behind a name is a replica.
//!
//! A name that leads to one machine stays a name: the connection is made to whichever of its addresses
//! answers, of both families. A name with several machines behind it, as a headless service of Kubernetes
//! is one, becomes one replica for each; those of one family, for a machine often has an address of each.
//! What a name leads to is looked up again from time to time, and replicas that are still there stay.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Pool;
use crate::Limits;
use crate::replica::{BadUri, Replica, uri_at};

/// A host name with replicas behind it.
#[derive(Debug)]
pub struct Name {
    uri: String,
    host: String,
    port: u16,
    /// Where the connection finds its way by itself.
    alone: Arc<Replica>,
}

impl Name {
    /// A name that no address is known of yet.
    ///
    /// # Errors
    ///
    /// If it cannot be part of a URI.
    pub fn new(host: &str, port: u16, limits: Limits) -> Result<Self, BadUri> {
        let uri = format!("http://{host}:{port}");
        Ok(Self {
            alone: Arc::new(Replica::new(&uri, limits)?),
            uri,
            host: host.to_owned(),
            port,
        })
    }

    /// The replica that stands for the name as long as no addresses are known.
    #[must_use]
    pub fn alone(&self) -> &Arc<Replica> {
        &self.alone
    }

    /// `http://host:port`.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    fn is_of(&self, replica: &Replica) -> bool {
        replica.uri() == self.uri || replica.found_behind() == Some(&self.uri)
    }
}

impl Pool {
    /// Whether there is a name to look up.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Asks the system where each name leads to now. One that cannot be found keeps what it had.
    pub async fn look_up(&self) {
        for name in &self.names {
            match tokio::net::lookup_host((name.host.as_str(), name.port)).await {
                Ok(addresses) => self.found(name, addresses),
                Err(error) => {
                    tracing::debug!(name = name.uri, %error, "name cannot be looked up");
                }
            }
        }
    }

    /// The name leads to these addresses.
    fn found(&self, name: &Name, addresses: impl Iterator<Item = SocketAddr>) {
        let machines = machines(addresses);
        let known = self.replicas();
        let replica = |at: &SocketAddr| {
            let uri = uri_at(*at);
            let is_it = |it: &&Arc<Replica>| it.uri() == uri && name.is_of(it);
            let known = known.iter().find(is_it).cloned();
            known.or_else(|| Some(Arc::new(Replica::behind(&name.uri, *at, self.limits).ok()?)))
        };
        let mut found: Vec<_> = machines.iter().filter_map(replica).collect();
        if found.is_empty() {
            let alone = known.iter().find(|it| it.uri() == name.uri);
            found.push(alone.unwrap_or(&name.alone).clone());
        }
        let is_same = |it: &&Arc<Replica>| found.iter().any(|other| Arc::ptr_eq(it, other));
        let of_name = known.iter().filter(|it| name.is_of(it));
        if of_name.clone().count() == found.len() && of_name.clone().all(|it| is_same(&it)) {
            return;
        }
        tracing::info!(
            name = name.uri,
            replicas = found.len(),
            "name leads elsewhere"
        );
        let mut replicas = self
            .replicas
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        replicas.retain(|it| !name.is_of(it));
        replicas.extend(found);
        self.moves.fetch_add(1, Ordering::Relaxed);
    }
}

/// The machines that these addresses are of; none if a single one may have them all.
fn machines(addresses: impl Iterator<Item = SocketAddr>) -> BTreeSet<SocketAddr> {
    let (v4, v6): (BTreeSet<_>, BTreeSet<_>) = addresses.partition(SocketAddr::is_ipv4);
    let larger = if v6.len() > v4.len() { v6 } else { v4 };
    if larger.len() > 1 {
        larger
    } else {
        BTreeSet::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flow_core::Deadline;
    use tokio::task::JoinSet;

    use super::*;
    use crate::retry::Policy;
    use crate::{Drain, GrpcService, Health, Listener, Metadata, Server};

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[track_caller]
    fn check(found: &[&str], expected: &[&str]) {
        let machines = machines(addresses(found).into_iter());
        assert!(machines.iter().eq(&addresses(expected)), "{machines:?}");
    }

    #[test]
    fn several_addresses_of_one_family_are_several_machines() {
        check(&[], &[]);
        check(&["10.0.0.1:5"], &[]);
        check(&["10.0.0.1:5", "[::1]:5"], &[]);
        check(&["10.0.0.2:5", "10.0.0.1:5"], &["10.0.0.1:5", "10.0.0.2:5"]);
        check(&["10.0.0.1:5", "10.0.0.1:5"], &[]);
        check(
            &["10.0.0.1:5", "10.0.0.2:5", "[fd::1]:5", "[fd::2]:5"],
            &["10.0.0.1:5", "10.0.0.2:5"],
        );
    }

    fn uris(pool: &Pool) -> Vec<String> {
        let replicas = pool.replicas();
        replicas.iter().map(|it| it.uri().to_owned()).collect()
    }

    #[tokio::test]
    async fn replicas_come_and_go_with_the_addresses() {
        let limits = Limits::default();
        let name = Name::new("workers", 5, limits).unwrap();
        let replicas = vec![name.alone().clone()];
        let pool = Pool::new(replicas, Policy::default(), Metadata::new());
        let pool = pool.with_names(vec![name], limits);
        let found = |texts| pool.found(&pool.names[0], addresses(texts).into_iter());

        found(&["10.0.0.1:5", "10.0.0.2:5"]);
        assert_eq!(uris(&pool), ["http://10.0.0.1:5", "http://10.0.0.2:5"]);
        let second = pool.replicas()[1].clone();
        found(&["10.0.0.3:5", "10.0.0.2:5"]);
        assert_eq!(uris(&pool), ["http://10.0.0.2:5", "http://10.0.0.3:5"]);
        assert!(Arc::ptr_eq(&pool.replicas()[0], &second));
        found(&["10.0.0.2:5"]);
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
            health.say(true).await;
            servers.spawn(async move {
                let drain = Drain::new(Duration::ZERO);
                let service = GrpcService::new(tonic::service::Routes::new(service));
                Server::new(listener, service).serve(&drain, async {}).await;
            });
        }
        let limits = Limits::default();
        let name = Name::new("localhost", port, limits).unwrap();
        let pool = Pool::new(Vec::new(), Policy::default(), Metadata::new());
        let pool = pool.with_names(vec![name], limits);
        pool.found(&pool.names[0], addresses.into_iter());
        assert_eq!(pool.replicas().len(), 2);
        for replica in pool.replicas() {
            assert!(replica.is_serving(Deadline::NEVER).await.unwrap());
        }
    }
}
