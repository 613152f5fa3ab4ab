//! Looks up the instances of a service in the DNS: its SRV records, and the addresses of their targets.
//!
//! ```text
//! instance.rs      decides which records count, and how long an answer is valid      pure
//! name_servers.rs  creates a resolver for the system's name servers, or for a given one
//! ```
//!
//! This module does not look up plain host names. The system does, because only the system knows `/etc/hosts` and `nsswitch.conf`.

mod instance;
mod name_servers;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RData, Record};
use hickory_resolver::{TokioResolver, lookup::Lookup};

use instance::Target;
use name_servers::NameServers;

pub(crate) use instance::{Instance, valid_for};

/// Maximum time of a lookup with all its queries. It is longer than the delay by one name server that does not answer.
const LOOKUP_MAX: Duration = Duration::from_secs(10);

/// Maximum number of targets that are looked up at the same time. Name servers limit the queries of a client, and an answer usually
/// takes milliseconds.
const TARGETS_AT_ONCE: usize = 16;

/// A service in the DNS, and the last known addresses of its targets.
#[derive(Debug)]
pub(crate) struct DnsService {
    name: String,
    name_servers: NameServers,
    /// The last known addresses of each target. A target whose lookup fails keeps them.
    last: Mutex<BTreeMap<Name, Vec<IpAddr>>>,
}

/// The instances of a service, and how long the answer is valid.
#[derive(Debug)]
pub(crate) struct DnsAnswer {
    /// Never empty.
    pub(crate) instances: Vec<Instance>,
    /// Number of instances beyond the limit.
    pub(crate) left_out: usize,
    pub(crate) valid_for: Duration,
}

/// Why the lookup of a service failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DnsFailure {
    #[error("the name servers of this machine cannot be used")]
    NameServers(#[source] NetError),
    #[error("the DNS has no records of this service")]
    NoRecords { valid_for: Option<Duration> },
    #[error("none of its records names a host and a port")]
    NoTargets { valid_for: Duration },
    #[error("the addresses of its hosts cannot be looked up")]
    NoAddresses,
    #[error("the DNS lookup failed")]
    Failed(#[source] NetError),
    #[error("no answer from a name server within {LOOKUP_MAX:?}")]
    Late,
}

impl DnsFailure {
    /// Returns how long the negative answer is valid, if the name server specifies it.
    pub(crate) fn valid_for(&self) -> Option<Duration> {
        match self {
            Self::NoRecords { valid_for } => *valid_for,
            Self::NoTargets { valid_for } => Some(*valid_for),
            Self::NameServers(_) | Self::NoAddresses | Self::Failed(_) | Self::Late => None,
        }
    }

    fn of_records(error: NetError) -> Self {
        match error {
            NetError::Dns(DnsError::NoRecordsFound(none)) => Self::NoRecords {
                valid_for: none.negative_ttl.map(|ttl| valid_for([ttl])),
            },
            error => Self::Failed(error),
        }
    }
}

impl DnsService {
    /// Creates a service with this name. If `name_server` is `None`, lookups use the system's name servers.
    pub(crate) fn new(name: &str, name_server: Option<SocketAddr>) -> Self {
        Self {
            name: name.to_owned(),
            name_servers: NameServers::new(name_server),
            last: Mutex::default(),
        }
    }

    /// Looks up the instances of the service.
    pub(crate) async fn look_up(&self) -> Result<DnsAnswer, DnsFailure> {
        let looking = tokio::time::timeout(LOOKUP_MAX, self.ask());
        looking.await.unwrap_or(Err(DnsFailure::Late))
    }

    async fn ask(&self) -> Result<DnsAnswer, DnsFailure> {
        let resolver = self.name_servers.resolver().await;
        let resolver = resolver.map_err(DnsFailure::NameServers)?;
        let records = resolver.srv_lookup(self.name.as_str()).await;
        let records = records.map_err(DnsFailure::of_records)?;
        let (targets, left_out) = instance::targets(services(&records));
        let of_records = ttls(&records);
        if targets.is_empty() {
            return Err(DnsFailure::NoTargets {
                valid_for: valid_for(of_records),
            });
        }
        let found = self.addresses(&resolver, &records, &targets).await;
        let ttls = of_records.chain(found.iter().filter_map(|(_, it)| it.ttl));
        let valid_for = valid_for(ttls);
        let addresses: BTreeMap<Name, Vec<IpAddr>> = found
            .into_iter()
            .map(|(name, it)| (name, it.addresses))
            .collect();
        let (instances, too_many) = instance::instances(&targets, &addresses);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
        if instances.is_empty() {
            return Err(DnsFailure::NoAddresses);
        }
        Ok(DnsAnswer {
            instances,
            left_out: left_out + too_many,
            valid_for,
        })
    }

    /// Returns the addresses of each target's host.
    async fn addresses(
        &self,
        resolver: &TokioResolver,
        records: &Lookup,
        targets: &[Target],
    ) -> Vec<(Name, Addresses)> {
        let mut hosts: Vec<&Name> = targets.iter().map(|it| &it.host).collect();
        hosts.sort();
        hosts.dedup();
        let look_up = |host: &Name| {
            let host = host.clone();
            async move {
                let found = match Addresses::among(records.additionals(), &host) {
                    Some(found) => Some(found),
                    None => Addresses::asked(resolver, &host).await,
                };
                let found = found.unwrap_or_else(|| self.last_addresses(&host));
                (host, found)
            }
        };
        let looking = stream::iter(hosts.into_iter().map(look_up));
        looking.buffer_unordered(TARGETS_AT_ONCE).collect().await
    }

    fn last_addresses(&self, host: &Name) -> Addresses {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Addresses {
            addresses: last.get(host).cloned().unwrap_or_default(),
            ttl: None,
        }
    }
}

/// The addresses of a host, and their shortest time to live in seconds.
#[derive(Debug)]
struct Addresses {
    addresses: Vec<IpAddr>,
    /// `None` if the addresses are from an earlier lookup.
    ttl: Option<u32>,
}

impl Addresses {
    /// Finds the addresses that the name server sent along with the SRV records.
    fn among(records: &[Record], host: &Name) -> Option<Self> {
        Self::of(records.iter().filter(|record| record.name == *host))
    }

    /// Asks for the addresses of both families. A failed lookup of one family does not affect the other.
    async fn asked(resolver: &TokioResolver, host: &Name) -> Option<Self> {
        let (v4, v6) = tokio::join!(
            resolver.ipv4_lookup(host.clone()),
            resolver.ipv6_lookup(host.clone())
        );
        let found = [v4, v6].into_iter().filter_map(Result::ok);
        let found: Vec<Lookup> = found.collect();
        Self::of(found.iter().flat_map(Lookup::answers))
    }

    fn of<'r>(records: impl Iterator<Item = &'r Record>) -> Option<Self> {
        let mut found = Self {
            addresses: Vec::new(),
            ttl: None,
        };
        for record in records {
            let ttl = found.ttl.map_or(record.ttl, |it| it.min(record.ttl));
            match record.data {
                RData::A(address) => found.addresses.push(address.0.into()),
                RData::AAAA(address) => found.addresses.push(address.0.into()),
                // The time to live of an alias counts, too.
                RData::CNAME(_) => {}
                _ => continue,
            }
            found.ttl = Some(ttl);
        }
        (!found.addresses.is_empty()).then_some(found)
    }
}

fn services(records: &Lookup) -> impl Iterator<Item = Target> {
    records
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => Some(Target {
                priority: service.priority,
                weight: service.weight,
                host: service.target.clone(),
                port: service.port,
            }),
            _ => None,
        })
}

fn ttls(records: &Lookup) -> impl Iterator<Item = u32> {
    records.answers().iter().map(|record| record.ttl)
}
