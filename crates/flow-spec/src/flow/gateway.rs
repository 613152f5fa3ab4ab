//! The gateway of a flow.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use flow_core::NodeName;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::jwt::{self, Jwt};
use super::local_run::TIMEOUT_READY;
use super::monitoring::{self, Monitoring};
use super::node::FlowNode;
use super::options::{env, is_set, log, or_default, value, values};
use super::telemetry::{self, Telemetry};
use super::tls::{self, GatewayTls};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::keys::GatewayOptions;
use crate::spec::FlowSpec;
use crate::values::{
    Console, Cors, Env, ExposedEndpoint, GatewayKind, LogStyle, ModelNames, PREFETCH, Protocol,
};

/// The default address of a gateway: only programs on this machine can connect.
const LOOPBACK: &str = "127.0.0.1";

/// Requests in progress in a gateway if the file does not say: enough for many busy streams, and with messages
/// of some kilobytes no more than a few hundred megabytes.
const IN_FLIGHT_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("is not zero");

/// What computes a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTarget {
    /// The executor.
    pub node: NodeName,
    /// Its endpoint; `None` means the one that the executor reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

impl From<NodeName> for ModelTarget {
    fn from(node: NodeName) -> Self {
        let endpoint = None;
        Self { node, endpoint }
    }
}

/// The process that clients connect to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// The address on which it listens; `None` means this machine only.
    #[serde(default)]
    pub host: Option<String>,
    /// The first port on which it listens; `None` means any free port.
    pub port: Option<u16>,
    /// The protocols of that port.
    pub protocols: Vec<Protocol>,
    /// The ports beside the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_ports: Vec<GatewayPort>,
    /// Whether a port refuses requests of other protocols than its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_protocols: bool,
    /// Its HTTP routes.
    #[serde(default, skip_serializing_if = "HttpOptions::are_default")]
    pub http: HttpOptions,
    /// Requests of one stream that may be in progress, unless the client asks for another number.
    pub prefetch: NonZeroUsize,
    /// Requests of all streams and calls together that may be in progress.
    pub in_flight_max: NonZeroUsize,
    /// What clients may send.
    #[serde(default, skip_serializing_if = "GatewayLimits::are_default")]
    pub limits: GatewayLimits,
    /// Environment variables of its process.
    #[serde(serialize_with = "Env::serialize_revealed")]
    pub env: Env,
    /// The format of its log; `None` means that of `flow up`.
    pub log: Option<LogStyle>,
    /// Maximum time until it serves; `None` sets no limit.
    pub timeout_ready: Option<Duration>,
    /// How it serves its metrics; `None` disables them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// What it exports to collectors of OpenTelemetry.
    #[serde(default, skip_serializing_if = "Telemetry::is_none")]
    pub telemetry: Telemetry,
    /// Which requests it logs besides those that fail.
    #[serde(default, skip_serializing_if = "RequestLogging::is_default")]
    pub logging: RequestLogging,
    /// Further names of models, each with the executor that runs the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelTarget>,
    /// TLS of its port; `None` if connections are not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
    /// API keys; `None` if requests need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeys>,
    /// The tokens of an identity provider that it accepts; `None` if it accepts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
}

/// Which requests a gateway logs besides those that fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLogging {
    /// Those that take as long.
    pub slow: Option<Duration>,
    /// All.
    pub all: bool,
}

impl RequestLogging {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde calls"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// API keys of clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeys {
    /// The file with the keys.
    pub file: PathBuf,
    /// Whether health checks need a key, too.
    pub for_health: bool,
}

/// A port of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayPort {
    /// The port; `None` means any free port.
    pub port: Option<u16>,
    /// The protocols that the file names for it.
    pub protocols: Vec<Protocol>,
}

/// The HTTP routes of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpOptions {
    /// Which web sites may call it.
    pub cors: Cors,
    /// Title of the OpenAPI document.
    pub title: Option<String>,
    /// Description of the OpenAPI document.
    pub description: Option<String>,
    /// Whether `/post`, `/status` and `/dry_run` are left out.
    pub no_debug_endpoints: bool,
    /// Whether `/index`, `/search`, `/update` and `/delete` are left out.
    pub no_crud_endpoints: bool,
    /// What browsers get of the console.
    #[serde(default)]
    pub console: Console,
    /// The only port that serves the console, as its place among all; `None` if all do.
    #[serde(default)]
    pub console_port: Option<usize>,
    /// Endpoints with routes of their own.
    pub exposed: IndexMap<String, ExposedEndpoint>,
}

impl HttpOptions {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
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
    /// Tokens of a call for vectors.
    #[serde(default)]
    pub tokens_max: Option<NonZeroUsize>,
    /// Levels of chunks and matches.
    pub nesting_max: Option<NonZeroUsize>,
    /// Connections of clients.
    pub connections_max: Option<NonZeroUsize>,
    /// Connections from one IP address.
    pub per_address_max: Option<NonZeroUsize>,
    /// Age at which a connection is closed.
    #[serde(default)]
    pub connection_age_max: Option<Duration>,
}

impl GatewayLimits {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Gateway {
    /// The address on which it listens.
    #[must_use]
    pub fn listen_host(&self) -> &str {
        self.host.as_deref().unwrap_or(LOOPBACK)
    }

    pub(super) fn check(
        spec: &FlowSpec,
        nodes: &[FlowNode],
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let effective = spec.gateway.or(&spec.gateway_with);
        let options = &with_uvicorn(effective.options.clone());
        let host = only(&options.host, "hosts", diagnostics);
        let mut ports = ports(options, diagnostics);
        let console_port = console_port(options, &ports, diagnostics);
        let first = ports.remove(0);
        Self {
            host,
            port: first.port,
            protocols: first.protocols,
            more_ports: ports,
            only_protocols: is_set(&options.only_protocols),
            http: HttpOptions {
                cors: or_default(&options.cors),
                title: value(&options.title),
                description: value(&options.description),
                no_debug_endpoints: is_set(&options.no_debug_endpoints),
                no_crud_endpoints: is_set(&options.no_crud_endpoints),
                console: or_default(&options.console),
                console_port,
                exposed: or_default(&options.expose_endpoints),
            },
            prefetch: value(&options.prefetch).unwrap_or(PREFETCH),
            in_flight_max: value(&options.in_flight_max).unwrap_or(IN_FLIGHT_MAX),
            limits: GatewayLimits {
                memory_max: value(&options.memory_max),
                decompressed_max: value(&options.decompressed_max),
                documents_max: value(&options.documents_max),
                tokens_max: value(&options.tokens_max),
                nesting_max: value(&options.nesting_max),
                connections_max: value(&options.connections_max),
                per_address_max: value(&options.connections_per_address_max),
                connection_age_max: value(&options.connection_age_max).flatten(),
            },
            env: env([&spec.options.env, &spec.gateway.options.env]),
            log: log(&effective.log),
            timeout_ready: value(&options.timeout_ready).unwrap_or(Some(TIMEOUT_READY)),
            monitoring: monitoring::of_gateway(&effective.monitoring, diagnostics),
            telemetry: telemetry::telemetry(
                &effective.telemetry,
                &effective.telemetry,
                diagnostics,
            ),
            logging: RequestLogging {
                slow: value(&options.slow_request).flatten(),
                all: is_set(&options.access_log),
            },
            models: models(options.models.as_ref(), nodes, diagnostics),
            tls: tls::of_gateway(options, diagnostics),
            api_keys: api_keys(options, diagnostics),
            jwt: jwt::of_gateway(options, diagnostics),
        }
    }
}

impl Gateway {
    /// All ports, the first one first.
    pub fn ports(&self) -> impl Iterator<Item = GatewayPort> {
        let first = GatewayPort {
            port: self.port,
            protocols: self.protocols.clone(),
        };
        std::iter::once(first).chain(self.more_ports.iter().cloned())
    }
}

/// The options, and those of `uvicorn_kwargs` that the file does not set directly.
fn with_uvicorn(options: GatewayOptions) -> GatewayOptions {
    let Some(uvicorn) = value(&options.uvicorn_kwargs) else {
        return options;
    };
    GatewayOptions {
        ssl_certfile: options.ssl_certfile.or(uvicorn.ssl_certfile),
        ssl_keyfile: options.ssl_keyfile.or(uvicorn.ssl_keyfile),
        ssl_ca_certs: options.ssl_ca_certs.or(uvicorn.ssl_ca_certs),
        ssl_client_certs: options.ssl_client_certs.or(uvicorn.ssl_client_certs),
        in_flight_max: options.in_flight_max.or(uvicorn.in_flight_max),
        ..options
    }
}

/// The ports with their protocols, at least one: the n-th protocol is for the n-th port. Protocols beyond the ports are
/// for the last one, and a single protocol is for all.
fn ports(options: &GatewayOptions, diagnostics: &mut Diagnostics) -> Vec<GatewayPort> {
    let mut ports = values(&options.port);
    if ports.is_empty() {
        ports.push(0);
    }
    let mut protocols = values(&options.protocol);
    if protocols.is_empty() {
        let kind = value(&options.uses);
        protocols.push(kind.map_or(Protocol::Grpc, GatewayKind::protocol));
    }
    if let Some(written) = &options.port
        && (2..ports.len()).contains(&protocols.len())
    {
        let message = format!("{} ports for {} protocols", ports.len(), protocols.len());
        let problem = Problem::new(&written.span, message);
        diagnostics.problem(problem.remedy("write a port for each protocol, or one for all"));
    }
    let last = ports.len() - 1;
    let of_port = |number: usize| match protocols.as_slice() {
        [one] => vec![*one],
        all if number == last => all.get(number..).unwrap_or_default().to_vec(),
        all => all.get(number).copied().into_iter().collect(),
    };
    let ports = ports.into_iter().enumerate();
    ports
        .map(|(number, written)| GatewayPort {
            port: Some(written).filter(|port| *port > 0),
            protocols: of_port(number),
        })
        .collect()
}

/// The place of the only port that serves the console.
fn console_port(
    options: &GatewayOptions,
    ports: &[GatewayPort],
    diagnostics: &mut Diagnostics,
) -> Option<usize> {
    let written = options.console_port.as_ref()?;
    let number = written.value;
    let Some(place) = ports.iter().position(|it| it.port == Some(number)) else {
        let message = format!("`console_port` is {number}, which is not a port of the gateway");
        let remedy = format!("write it under `port`, too, as in `port: [8080, {number}]`");
        diagnostics.problem(Problem::new(&written.span, message).remedy(&remedy));
        return None;
    };
    if is_set(&options.only_protocols) && !ports[place].protocols.contains(&Protocol::Http) {
        let message =
            format!("`console_port` is {number}, which serves no HTTP because of `only_protocols`");
        let remedy = "choose a port whose protocol is `http`";
        diagnostics.problem(Problem::new(&written.span, message).remedy(remedy));
    }
    Some(place)
}

/// The names of models, each with an executor of the flow, and the endpoint if it is written.
fn models(
    written: Option<&Spanned<ModelNames>>,
    nodes: &[FlowNode],
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, ModelTarget> {
    let mut models = BTreeMap::new();
    for (model, target) in written.into_iter().flat_map(|it| &it.value) {
        let end = target.value.find('/').unwrap_or(target.value.len());
        let (executor, endpoint) = target.value.split_at(end);
        let names = nodes.iter().map(|node| node.name.as_str());
        let Some(node) = nodes.iter().find(|node| node.name.as_str() == executor) else {
            let message = format!(
                "`models` gives the model `{model}` to `{executor}`, which is not an executor of this flow"
            );
            let meant = flow_core::closest(executor, names);
            diagnostics.problem(Problem::new(&target.span, message).suggest(meant));
            continue;
        };
        let target = ModelTarget {
            node: node.name.clone(),
            endpoint: (!endpoint.is_empty()).then(|| endpoint.to_owned()),
        };
        models.insert(model.clone(), target);
    }
    models
}

fn api_keys(options: &GatewayOptions, diagnostics: &mut Diagnostics) -> Option<ApiKeys> {
    let for_health = options.api_keys_health.as_ref();
    if let (None, None, Some(flag)) = (&options.api_keys, &options.jwt_keys, for_health) {
        let message = "`api_keys_health` has no effect without `api_keys` or `jwt_keys`";
        diagnostics.problem(Problem::new(&flag.span, message).remedy("add `api_keys`"));
    }
    Some(ApiKeys {
        file: value(&options.api_keys)?.into(),
        for_health: for_health.is_some_and(|flag| flag.value),
    })
}

/// The last value of a list that may have only one.
fn only<T: Clone>(
    list: &Option<Spanned<Vec<Spanned<T>>>>,
    what: &str,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let list = list.as_ref()?;
    if list.value.len() > 1 {
        let message = format!("a gateway listens on one of the {what} only");
        diagnostics.problem(Problem::new(&list.span, message).remedy("keep one"));
    }
    list.value.last().map(|item| item.value.clone())
}
