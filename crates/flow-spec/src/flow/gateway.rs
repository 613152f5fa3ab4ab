//! The gateway of a flow.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::local_run::TIMEOUT_READY;
use super::monitoring::{self, Monitoring};
use super::options::{env, log, value};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::spec::FlowSpec;
use crate::values::{Env, Log, PREFETCH, Protocol};

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
    pub(super) fn check(spec: &FlowSpec, diagnostics: &mut Diagnostics) -> Self {
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
        }
    }
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
