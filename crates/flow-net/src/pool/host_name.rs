//! A host name that replicas are behind.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::Limits;
use crate::replica::{BadUri, Replica};

/// A host name that replicas are behind.
#[derive(Debug)]
pub struct HostName {
    uri: String,
    host: String,
    port: u16,
    unresolved: Arc<Replica>,
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
