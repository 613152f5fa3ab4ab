//! The gateway of a flow.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use flow_core::NodeName;
use serde::{Deserialize, Serialize};

use super::local_run::TIMEOUT_READY;
use super::monitoring::{self, Monitoring};
use super::node::Node;
use super::options::{env, log, value};
use super::tls::{self, GatewayTls};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::keys::GatewayOptions;
use crate::spec::FlowSpec;
use crate::values::{Env, Log, ModelNames, PREFETCH, Protocol};

/// Where a gateway listens if the file does not say, as in Jina: clients connect from other machines.
const EVERYWHERE: &str = "0.0.0.0";

/// Requests in progress in a gateway if the file does not say: enough for many busy streams, and with messages
/// of some kilobytes no more than a few hundred megabytes.
const IN_FLIGHT_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("is not zero");

/// The process that clients connect to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// The address on which it listens.
    pub host: String,
    /// The port on which it listens; `None`: any free port.
    pub port: Option<u16>,
    /// The protocol of the port.
    pub protocol: Protocol,
    /// Requests of one stream that may be in progress, unless the client asks for another number.
    pub prefetch: NonZeroUsize,
    /// Requests of all streams and calls together that may be in progress.
    pub in_flight_max: NonZeroUsize,
    /// What clients may send.
    #[serde(default, skip_serializing_if = "GatewayLimits::are_default")]
    pub limits: GatewayLimits,
    /// Environment variables of its process.
    pub env: Env,
    /// The format of its log; `None`: as `flow up` logs.
    pub log: Option<Log>,
    /// How long it may take until it serves; `None`: forever.
    pub timeout_ready: Option<Duration>,
    /// How it serves its metrics; `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// Further names of models, each with the executor that runs the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, NodeName>,
    /// TLS of its port; `None` if connections are not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
    /// API keys; `None` if requests need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeys>,
}

/// API keys of clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeys {
    /// The file with the keys.
    pub file: PathBuf,
    /// Whether health checks need a key, too.
    pub for_health: bool,
}

/// Limits on what clients send to the gateway; `None` for its own default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayLimits {
    /// Bytes of requests and replies.
    pub memory_max: Option<NonZeroUsize>,
    /// Bytes of a compressed request after decompression.
    pub decompressed_max: Option<NonZeroUsize>,
    /// Documents of a request.
    pub documents_max: Option<NonZeroUsize>,
    /// Levels of chunks and matches.
    pub nesting_max: Option<NonZeroUsize>,
    /// Connections of clients.
    pub connections_max: Option<NonZeroUsize>,
    /// Connections from one IP address.
    pub per_address_max: Option<NonZeroUsize>,
}

impl GatewayLimits {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Gateway {
    pub(super) fn check(spec: &FlowSpec, nodes: &[Node], diagnostics: &mut Diagnostics) -> Self {
        let effective = spec.gateway.or(&spec.gateway_with);
        let options = &effective.options;
        let host = only(&options.host, "hosts", diagnostics);
        let port = only(&options.port, "ports", diagnostics);
        let protocol = only(&options.protocol, "protocols", diagnostics);
        Self {
            host: host.unwrap_or_else(|| EVERYWHERE.to_owned()),
            port: port.filter(|port| *port > 0),
            protocol: protocol.unwrap_or(Protocol::Grpc),
            prefetch: value(&options.prefetch).unwrap_or(PREFETCH),
            in_flight_max: value(&options.in_flight_max).unwrap_or(IN_FLIGHT_MAX),
            limits: GatewayLimits {
                memory_max: value(&options.memory_max),
                decompressed_max: value(&options.decompressed_max),
                documents_max: value(&options.documents_max),
                nesting_max: value(&options.nesting_max),
                connections_max: value(&options.connections_max),
                per_address_max: value(&options.connections_per_address_max),
            },
            env: env([&spec.options.env, &spec.gateway.options.env]),
            log: log(&effective.log),
            timeout_ready: value(&options.timeout_ready).unwrap_or(Some(TIMEOUT_READY)),
            monitoring: monitoring::of_gateway(&effective.monitoring, diagnostics),
            models: models(options.models.as_ref(), nodes, diagnostics),
            tls: tls::of_gateway(options, diagnostics),
            api_keys: api_keys(options, diagnostics),
        }
    }
}

/// The names of models, each with an executor of the flow.
fn models(
    written: Option<&Spanned<ModelNames>>,
    nodes: &[Node],
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, NodeName> {
    let mut models = BTreeMap::new();
    for (model, executor) in written.into_iter().flat_map(|it| &it.value) {
        let names = nodes.iter().map(|node| node.name.as_str());
        match nodes
            .iter()
            .find(|node| node.name.as_str() == executor.value)
        {
            Some(node) => drop(models.insert(model.clone(), node.name.clone())),
            None => {
                let message = format!(
                    "`models` gives the model `{model}` to `{}`, which is no executor of this flow",
                    executor.value
                );
                let meant = flow_core::closest(&executor.value, names);
                diagnostics.problem(Problem::new(&executor.span, message).suggest(meant));
            }
        }
    }
    models
}

fn api_keys(options: &GatewayOptions, diagnostics: &mut Diagnostics) -> Option<ApiKeys> {
    let for_health = options.api_keys_health.as_ref();
    if let (None, Some(flag)) = (&options.api_keys, for_health) {
        let message = "`api_keys_health` means nothing without `api_keys`";
        diagnostics.problem(Problem::new(&flag.span, message).remedy("add `api_keys`"));
    }
    Some(ApiKeys {
        file: value(&options.api_keys)?.into(),
        for_health: for_health.is_some_and(|flag| flag.value),
    })
}

/// The last value of a list that may have only one for now.
fn only<T: Clone>(
    list: &Option<Spanned<Vec<Spanned<T>>>>,
    what: &str,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let list = list.as_ref()?;
    if list.value.len() > 1 {
        let message = format!(
            "a gateway with several {what} is something of Jina's that flow does not support yet"
        );
        diagnostics.problem(Problem::new(&list.span, message).remedy("keep one"));
    }
    list.value.last().map(|item| item.value.clone())
}
