//! Makes the nodes of a placement. Replicas that the placement before has as well keep their connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use flow_core::{Chain, NodeName, RequestLimits};
use flow_net::retry::Policy;
use flow_net::tls::{CertificateFiles, ClientTls, TlsError, TlsOptions};
use flow_net::{BadMetadata, BadUri, HedgeAfter, HostName, Limits, Metadata, Pool, Replica};
use flow_spec::{Address, CallTls, Calls, Hedge, NodeAddresses, NodePlan, Retries};
use flow_trace::Tracer;

use crate::backend::Backend;
use crate::heavy::HeavyWork;
use crate::metrics::GatewayMetrics;
use crate::node::Node;
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
}

/// What no placement changes.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    /// `None` if the gateway is not monitored.
    pub(crate) metrics: Option<GatewayMetrics>,
    pub(crate) log: Arc<RequestLog>,
    /// Limits on the parts of requests.
    pub(crate) requests: RequestLimits,
    pub(crate) heavy: HeavyWork,
    /// `None` if the gateway exports no spans.
    pub(crate) tracer: Option<Tracer>,
}

/// The replicas of the placement before, by their URIs.
pub(crate) struct KnownReplicas(HashMap<String, Vec<Arc<Replica>>>);

impl KnownReplicas {
    pub(crate) fn of<'n>(nodes: impl Iterator<Item = &'n Node>) -> Self {
        let mut by_uri: HashMap<String, Vec<Arc<Replica>>> = HashMap::new();
        for replica in nodes.flat_map(Node::pools).flat_map(Pool::replicas) {
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
        shared: &Shared,
    ) -> Result<Node, PlacementError> {
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
        let node = Node::new(
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
        shared: &Shared,
    ) -> Result<Pool, NodeError> {
        let limits = shared.limits;
        let tls = calls.tls.as_ref().map(|it| ClientTls::load(options(it)));
        let tls = tls.transpose().map_err(NodeError::Tls)?;
        let mut replicas = Vec::new();
        let mut names = Vec::new();
        for address in addresses {
            let uri = address.to_string();
            let tcp = address.tcp();
            let name = tcp.filter(|it| it.host.parse::<IpAddr>().is_err() && !it.tls);
            let name = name.map(|it| HostName::new(&it.host, it.port, limits));
            let name = name.transpose()?;
            let known = self.known(&uri, tls.as_ref().filter(|_| address.is_encrypted()));
            match (&name, &tls) {
                _ if !known.is_empty() => replicas.extend(known),
                (Some(name), _) => replicas.push(name.unresolved().clone()),
                (None, Some(tls)) if address.is_encrypted() => {
                    let replica = Replica::with_tls(&uri, tls.clone(), limits)?;
                    replicas.push(Arc::new(replica));
                }
                (None, _) => replicas.push(Arc::new(Replica::new(&uri, limits)?)),
            }
            names.extend(name);
        }
        let metadata = Metadata::parse(&calls.metadata)?;
        let pool = Pool::new(replicas, retry_policy(calls), metadata);
        let pool = pool.with_names(names, limits);
        let pool = pool.with_slow_start(calls.slow_start);
        let pool = pool.with_hedge(calls.hedge.map(hedge_after));
        Ok(pool.with_tracer(shared.tracer.clone()))
    }
}

fn options(tls: &CallTls) -> TlsOptions {
    TlsOptions {
        roots: tls.roots.clone(),
        own: tls.own.as_ref().map(|files| CertificateFiles {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        }),
        server_name: tls.server_name.clone(),
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
