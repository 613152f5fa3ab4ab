//! Makes the nodes of a placement. Replicas that the placement before has as well keep their connections.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use flow_core::{Chain, NodeName, RequestLimits};
use flow_net::retry::Policy;
use flow_net::tls::{CertificateFiles, ClientTls, TlsError, TlsOptions};
use flow_net::{
    BadMetadata, BadUri, HedgeAfter, HostName, Limits, LocalService, Metadata, Pool, Replica,
    ReplicaName, ServiceName,
};
use flow_spec::{
    Address, CallTls, Calls, Hedge, NodeAddresses, NodePlan, Retries, ServiceAddress, TcpAddress,
};
use flow_trace::Tracer;

use crate::backend::Backend;
use crate::heavy::HeavyWork;
use crate::metrics::GatewayMetrics;
use crate::node::GatewayNode;
use crate::request_log::RequestLog;

/// A node of a placement cannot be called as the flow says.
#[derive(Debug, thiserror::Error)]
#[error("executor `{node}`: {reason}")]
pub struct PlacementError {
    /// Which node.
    pub node: NodeName,
    /// Why not.
    pub reason: NodeError,
}

/// What is wrong with a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It has an address that cannot be used.
    #[error(transparent)]
    Address(#[from] BadUri),
    /// It has metadata that cannot be sent.
    #[error(transparent)]
    Metadata(#[from] BadMetadata),
    /// It has files for TLS that cannot be used.
    #[error("{}", Chain(.0))]
    Tls(TlsError),
    /// It is to run in this process and does not.
    #[error("it does not run in the process of the gateway")]
    NotColocated,
}

/// What no placement changes.
#[derive(Debug, Clone)]
pub(crate) struct PlacementIndependent {
    pub(crate) limits: Limits,
    /// `None` if the gateway is not monitored.
    pub(crate) metrics: Option<GatewayMetrics>,
    pub(crate) log: Arc<RequestLog>,
    /// Limits on the parts of requests.
    pub(crate) requests: RequestLimits,
    pub(crate) heavy: HeavyWork,
    /// `None` if the gateway exports no spans.
    pub(crate) tracer: Option<Tracer>,
    /// The executors in this process, by node.
    pub(crate) colocated: Arc<HashMap<NodeName, LocalService>>,
}

/// The replicas of the placement before, by their URIs.
pub(crate) struct KnownReplicas(HashMap<String, Vec<Arc<Replica>>>);

impl KnownReplicas {
    pub(crate) fn of<'n>(nodes: impl Iterator<Item = &'n GatewayNode>) -> Self {
        let mut by_uri: HashMap<String, Vec<Arc<Replica>>> = HashMap::new();
        for replica in nodes.flat_map(GatewayNode::pools).flat_map(Pool::replicas) {
            let uri = replica.host_name().unwrap_or(replica.uri()).to_owned();
            let same = by_uri.entry(uri).or_default();
            if !same.iter().any(|it| Arc::ptr_eq(it, &replica)) {
                same.push(replica);
            }
        }
        Self(by_uri)
    }

    /// A node at these addresses.
    pub(crate) fn node(
        &self,
        plan: &NodePlan,
        places: &NodeAddresses,
        shared: &PlacementIndependent,
    ) -> Result<GatewayNode, PlacementError> {
        let metrics = shared.metrics.as_ref();
        let metrics = metrics.map(|it| it.node(plan.name.as_str()));
        let backend = |addresses: &[Address]| {
            let pool = self.pool(&plan.calls, addresses, shared);
            let calls = metrics.as_ref().map(|it| it.calls.clone());
            let pool = pool.map(|pool| pool.with_metrics(calls));
            pool.map(Backend::Replicas)
                .map_err(|reason| PlacementError {
                    node: plan.name.clone(),
                    reason,
                })
        };
        let single = |address: &Option<Address>| {
            let address = address.as_ref().map(std::slice::from_ref);
            address.map(backend).transpose()
        };
        let shards = places.shards.iter().map(|it| backend(it));
        let node = GatewayNode::new(
            shards.collect::<Result<_, _>>()?,
            single(&places.before)?,
            single(&places.after)?,
        );
        Ok(node.with_metrics(metrics))
    }

    /// The replicas at this URI that are called with the same options of TLS.
    fn known(&self, uri: &str, tls: Option<&ClientTls>) -> Vec<Arc<Replica>> {
        let wanted = tls.map(ClientTls::options);
        let known = self.0.get(uri).into_iter().flatten();
        let same = known.filter(|replica| replica.tls_options() == wanted);
        same.cloned().collect()
    }

    fn pool(
        &self,
        calls: &Calls,
        addresses: &[Address],
        shared: &PlacementIndependent,
    ) -> Result<Pool, NodeError> {
        let mut replicas = Vec::new();
        let mut names = Vec::new();
        for address in addresses {
            let tls = calls.tls.as_ref().filter(|_| address.is_encrypted());
            let tls = tls.map(|it| ClientTls::load(options(it, address)));
            let tls = tls.transpose().map_err(NodeError::Tls)?;
            let known = self.known(&address.to_string(), tls.as_ref());
            let (new, name) = match address {
                Address::Colocated { colocated } => (Some(in_process(colocated, shared)?), None),
                _ => place(address, tls, shared.limits)?,
            };
            names.extend(name);
            match known.is_empty() {
                true => replicas.extend(new),
                false => replicas.extend(known),
            }
        }
        let metadata = Metadata::parse(calls.metadata.reveal())?;
        let pool = Pool::new(replicas, retry_policy(calls), metadata);
        let pool = pool.with_names(names);
        // Other gateways, which may have started at the same moment, begin elsewhere.
        let random = RandomState::new().hash_one(addresses.len());
        let pool = pool.with_first_turn(usize::try_from(random >> 32).unwrap_or(0));
        let pool = pool.with_slow_start(calls.slow_start);
        let pool = pool.with_compression(calls.compression.map(compression));
        let pool = pool.with_hedge(calls.hedge.map(hedge_after));
        Ok(pool.with_tracer(shared.tracer.clone()))
    }
}

/// The replica that is an executor in this process.
fn in_process(node: &NodeName, shared: &PlacementIndependent) -> Result<Arc<Replica>, NodeError> {
    let service = shared.colocated.get(node).cloned();
    let service = service.ok_or(NodeError::NotColocated)?;
    let address = format!("colocated:{node}");
    Ok(Arc::new(Replica::local(address, service, shared.limits)))
}

/// The replica at an address before names are looked up, and the name, if there is one.
fn place(
    address: &Address,
    tls: Option<ClientTls>,
    limits: Limits,
) -> Result<(Option<Arc<Replica>>, Option<ReplicaName>), BadUri> {
    let uri = address.to_string();
    match (address, tls) {
        (Address::Service(service), tls) => {
            let at = (&*service.service, service.name_server);
            let name = ServiceName::new(uri, at, tls, limits);
            Ok((None, Some(ReplicaName::Service(Box::new(name)))))
        }
        (_, Some(tls)) => Ok((Some(Arc::new(Replica::with_tls(&uri, tls, limits)?)), None)),
        (Address::Tcp(TcpAddress { host, port, .. }), None) if host.parse::<IpAddr>().is_err() => {
            let name = HostName::new(host, *port, limits)?;
            let unresolved = name.unresolved().clone();
            Ok((Some(unresolved), Some(ReplicaName::Host(name))))
        }
        (Address::Tcp(_) | Address::Unix { .. } | Address::Colocated { .. }, None) => {
            Ok((Some(Arc::new(Replica::new(&uri, limits)?)), None))
        }
    }
}

/// The options of the connections to an address. The certificates of a service are for its domain.
fn options(tls: &CallTls, address: &Address) -> TlsOptions {
    let domain = address.service().map(ServiceAddress::domain);
    TlsOptions {
        roots: tls.roots.clone(),
        own: tls.own.as_ref().map(|files| CertificateFiles {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        }),
        server_name: tls.server_name.clone().or(domain.map(str::to_owned)),
    }
}

fn compression(compression: flow_spec::Compression) -> flow_net::Compression {
    match compression {
        flow_spec::Compression::Gzip => flow_net::Compression::Gzip,
        flow_spec::Compression::Deflate => flow_net::Compression::Deflate,
    }
}

fn hedge_after(hedge: Hedge) -> HedgeAfter {
    match hedge {
        Hedge::After(time) => HedgeAfter::Time(time),
        Hedge::Percentile(percent) => HedgeAfter::Percentile(percent),
    }
}

fn retry_policy(calls: &Calls) -> Policy {
    let retries = match calls.retries {
        Retries::Default => None,
        Retries::Times(times) => Some(times),
    };
    Policy {
        retries,
        idempotent: calls.idempotent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificates_of_a_service_are_for_its_domain_unless_the_file_names_another_one() {
        let service = ServiceAddress::parse("_grpc._tcp.encoder.example").unwrap();
        let service = Address::Service(service);
        let name = |server_name: Option<&str>, address: &Address| {
            let tls = CallTls {
                roots: None,
                own: None,
                server_name: server_name.map(str::to_owned),
            };
            options(&tls, address).server_name
        };
        assert_eq!(name(None, &service).as_deref(), Some("encoder.example"));
        assert_eq!(name(Some("other"), &service).as_deref(), Some("other"));
        assert_eq!(name(None, &Address::new("host", 5)), None);
    }
}
