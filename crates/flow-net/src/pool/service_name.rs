//! A service in the DNS that leads to replicas. Each instance in its SRV records is a replica.

use std::net::SocketAddr;
use std::sync::Arc;

use super::unusable::UnusableReplicas;
use crate::Limits;
use crate::dns::{DnsAnswer, DnsFailure, DnsService, Instance};
use crate::replica::Replica;
use crate::tls::ClientTls;

/// A service in the DNS that leads to replicas.
#[derive(Debug)]
pub struct ServiceName {
    uri: String,
    service: DnsService,
    tls: Option<ClientTls>,
    unusable: UnusableReplicas,
    limits: Limits,
}

impl ServiceName {
    /// Creates a service without looking it up. Messages call it `uri`. If the name server is `None`, lookups use the system's.
    #[must_use]
    pub fn new(
        uri: String,
        (service, name_server): (&str, Option<SocketAddr>),
        tls: Option<ClientTls>,
        limits: Limits,
    ) -> Self {
        Self {
            uri,
            service: DnsService::new(service, name_server),
            tls,
            unusable: UnusableReplicas::default(),
            limits,
        }
    }

    /// Returns the name of the service in messages.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn is_of(&self, replica: &Replica) -> bool {
        replica.host_name() == Some(&self.uri)
    }

    pub(super) async fn look_up(&self) -> Result<DnsAnswer, DnsFailure> {
        self.service.look_up().await
    }

    /// Returns the replicas at these instances, with their priorities and weights. Known replicas are reused.
    pub(super) fn replicas(
        &self,
        instances: &[Instance],
        known: &[Arc<Replica>],
    ) -> Vec<Arc<Replica>> {
        let replica = |instance: &Instance| {
            let is_same =
                |it: &&Arc<Replica>| self.is_of(it) && it.addresses() == instance.addresses;
            let replica = match known.iter().find(is_same) {
                Some(known) => known.clone(),
                None => {
                    let (tls, limits) = (self.tls.clone(), self.limits);
                    let replica = Replica::of_instance(&self.uri, instance, tls, limits);
                    Arc::new(self.unusable.leave_out(&self.uri, replica)?)
                }
            };
            replica.set_rank(instance.priority, instance.weight);
            Some(replica)
        };
        instances.iter().filter_map(replica).collect()
    }
}
