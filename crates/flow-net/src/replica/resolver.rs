//! Looks up the addresses of a host name for each new connection, and has them tried in random order.
//!
//! Several gateways behind one name share their clients in this way, and a client whose gateway is gone goes to another one
//! when it connects again. The system's resolver may sort addresses, so that all clients of a machine would go to the same one.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// The system's resolver, whose answers are shuffled.
#[derive(Debug, Clone)]
pub(super) struct ShufflingResolver {
    system: GaiResolver,
    /// The addresses of every name; `None` if the system is to be asked.
    known: Option<Arc<[SocketAddr]>>,
}

impl ShufflingResolver {
    pub(super) fn new() -> Self {
        Self {
            system: GaiResolver::new(),
            known: None,
        }
    }

    /// One that answers with these addresses, in this order, for every name.
    pub(super) fn knowing(addresses: &[SocketAddr]) -> Self {
        Self {
            known: Some(addresses.into()),
            ..Self::new()
        }
    }
}

impl Service<Name> for ShufflingResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        if let Some(known) = &self.known {
            let known = Vec::from(known.as_ref()).into_iter();
            return Box::pin(std::future::ready(Ok(known)));
        }
        let looked_up = self.system.call(name);
        // The keys of a `RandomState` are random, and others for each one.
        Box::pin(async move { Ok(shuffled(looked_up.await?, &RandomState::new()).into_iter()) })
    }
}

/// The addresses in an order that the hashes decide. The family that the resolver prefers comes first: the machine may have
/// no route to addresses of the other one.
fn shuffled(
    addresses: impl Iterator<Item = SocketAddr>,
    hashes: &impl BuildHasher,
) -> Vec<SocketAddr> {
    let mut addresses: Vec<SocketAddr> = addresses.collect();
    if let Some(first) = addresses.first() {
        let prefers_v6 = first.is_ipv6();
        addresses.sort_by_cached_key(|it| (it.is_ipv6() != prefers_v6, hashes.hash_one(it)));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn shuffle(of: &[SocketAddr]) -> Vec<SocketAddr> {
        shuffled(of.iter().copied(), &RandomState::new())
    }

    #[test]
    fn each_address_of_a_name_is_tried_first_by_some_clients() {
        let all = addresses(&["10.0.0.1:0", "10.0.0.2:0", "10.0.0.3:0"]);
        // That one of three is never first in 200 tries has a probability of 10^-35.
        let first: BTreeSet<SocketAddr> = (0..200).map(|_| shuffle(&all)[0]).collect();
        assert_eq!(first, all.iter().copied().collect());
    }

    #[test]
    fn the_family_that_the_system_prefers_stays_first() {
        for all in [
            addresses(&["[::1]:0", "127.0.0.1:0", "[::2]:0", "127.0.0.2:0"]),
            addresses(&["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"]),
        ] {
            let mut tried = shuffle(&all);
            let of_first = all.iter().filter(|it| it.is_ipv6() == all[0].is_ipv6());
            let count = of_first.count();
            assert!(
                tried[..count]
                    .iter()
                    .all(|it| it.is_ipv6() == all[0].is_ipv6()),
                "{tried:?}"
            );
            let mut all = all;
            all.sort();
            tried.sort();
            assert_eq!(tried, all);
        }
        assert!(shuffle(&[]).is_empty());
    }
}
