//! A host name that replicas are behind.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::unusable::UnusableReplicas;
use crate::Limits;
use crate::replica::{BadUri, Replica, uri_of};

/// Interval between lookups of a host name. The system does not report how long an answer is valid. The name servers of clusters cache
/// answers for the same time.
pub(super) const RESOLVE_EVERY: Duration = Duration::from_secs(5);

/// Maximum number of machines behind a name. Each one has a connection, and each request considers all of them.
const MACHINES_MAX: usize = 256;

/// A host name that replicas are behind.
#[derive(Debug)]
pub struct HostName {
    uri: String,
    host: String,
    port: u16,
    unresolved: Arc<Replica>,
    unusable: UnusableReplicas,
    limits: Limits,
}

impl HostName {
    /// A name that has not been resolved yet.
    ///
    /// # Errors
    ///
    /// If it cannot be part of a URI.
    pub fn new(host: &str, port: u16, limits: Limits) -> Result<Self, BadUri> {
        let uri = format!("http://{host}:{port}");
        Ok(Self {
            unresolved: Arc::new(Replica::new(&uri, limits)?),
            uri,
            host: host.to_owned(),
            port,
            unusable: UnusableReplicas::default(),
            limits,
        })
    }

    /// The replica whose connection resolves the name itself. It is used until the name is found to have the
    /// addresses of several machines.
    #[must_use]
    pub fn unresolved(&self) -> &Arc<Replica> {
        &self.unresolved
    }

    /// `http://host:port`.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn host_and_port(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(super) fn is_of(&self, replica: &Replica) -> bool {
        replica.uri() == self.uri || replica.host_name() == Some(&self.uri)
    }

    /// Returns the replicas at these addresses, and the number of machines beyond the limit. Known replicas are reused.
    pub(super) fn replicas(
        &self,
        addresses: impl Iterator<Item = SocketAddr>,
        known: &[Arc<Replica>],
    ) -> (Vec<Arc<Replica>>, usize) {
        let machines = machines(addresses);
        let left_out = machines.len().saturating_sub(MACHINES_MAX);
        let replica = |at: &SocketAddr| {
            let uri = uri_of(*at);
            let is_same = |it: &&Arc<Replica>| it.uri() == uri && self.is_of(it);
            let known = known.iter().find(is_same).cloned();
            known.or_else(|| {
                let replica = Replica::resolved(&self.uri, *at, self.limits);
                self.unusable.leave_out(&self.uri, replica).map(Arc::new)
            })
        };
        let machines = machines.iter().take(MACHINES_MAX);
        let mut found: Vec<_> = machines.filter_map(replica).collect();
        if found.is_empty() {
            let unresolved = known.iter().find(|it| it.uri() == self.uri);
            found.push(unresolved.unwrap_or(&self.unresolved).clone());
        }
        (found, left_out)
    }
}

/// The machines that have these addresses; none if they may all belong to a single one.
pub(super) fn machines(addresses: impl Iterator<Item = SocketAddr>) -> BTreeSet<SocketAddr> {
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
    use super::*;

    #[track_caller]
    fn check(found: &[&str], expected: &[&str]) {
        let parse = |text: &&str| text.parse::<SocketAddr>().unwrap();
        let machines = machines(found.iter().map(parse));
        assert!(
            machines.iter().copied().eq(expected.iter().map(parse)),
            "{machines:?}"
        );
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
}
