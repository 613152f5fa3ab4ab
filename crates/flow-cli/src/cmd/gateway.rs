//! `flow gateway`: the process that clients talk to.
//!
//! `flow up` starts it, and writes placements to its standard input. Users start it for executors that they run themselves.

mod colocated;
#[cfg(feature = "launch")]
mod control_client;
mod placements;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use flow_gateway::auth::ApiKeys;
use flow_gateway::supervisor::SupervisorClient;
use flow_gateway::{ACCESS_LOG, Config, GatewayLimits, RUNTIME, TrafficReader};
use flow_net::{ConnectionLimits, Drain, Stopped};
use flow_otlp::{Collector, ExportSettings, Requested};
use flow_process::{
    FILTER_FILE_VARIABLE, LogFormat, ReadyEvent, STATUS_SOCKET_VARIABLE, end_with_parent,
    follow_filter_file, on_termination, serve_status,
};
use flow_spec::{Address, NodeAddresses, Placement, Plan, Run, ServiceAddress, TcpAddress};

use crate::credentials;
use crate::exit::{BadUsage, Exit};
use crate::flow_file::{self, ReadOptions};
use crate::resolve::resolve_folders;
use crate::shell::Shell;
use colocated::ColocatedExecutors;
use placements::PlacementSource;

/// Name of the gateway in its ready line.
const NAME: &str = "gateway";

const BAD_ADDRESSES: &str =
    "`--addresses` must be JSON such as `{\"encoder\": [\"grpc://host:port\"]}`";

/// Headings of the options.
const LISTENING: &str = "Listening";
const METRICS: &str = "Metrics";
const OPENTELEMETRY: &str = "OpenTelemetry";
const LOGGING: &str = "Logging";

/// Options of `flow gateway`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow gateway flows/encode.yml --addresses '{\"encoder\": [\"grpc://10.0.0.7:54400\"]}'

Exit codes: 0 stopped by a signal, 1 failure, or requests were cut off, 2 bad usage or a bad flow
file, 130 a second signal stopped it.")]
pub(crate) struct Gateway {
    /// Flow file to serve
    #[arg(value_name = "FLOW.yml", required_unless_present = "placement")]
    file: Option<PathBuf>,
    /// Addresses of the executors that `flow up` would start, as a JSON object from executor name to list
    /// of addresses
    #[arg(long, value_name = "JSON", requires = "file", default_value = "{}")]
    addresses: String,
    /// Read a placement as one line of JSON; on standard input (`-`), each further line replaces the one before
    #[arg(long, value_name = "FILE", conflicts_with = "file", hide = true)]
    placement: Option<PathBuf>,
    /// Listen on this address instead of that of the file
    #[arg(long, value_name = "ADDRESS", help_heading = LISTENING)]
    host: Option<String>,
    /// Listen on this port instead of that of the file; 0 picks a free one
    #[arg(long, help_heading = LISTENING)]
    port: Option<u16>,
    /// Serve metrics for Prometheus at /metrics, even if the file does not ask for it
    #[arg(long, help_heading = METRICS)]
    monitoring: bool,
    /// Serve metrics on this port instead of that of the file; 0 picks a free one
    #[arg(long, value_name = "PORT", help_heading = METRICS)]
    port_monitoring: Option<u16>,
    /// Export spans of requests to a collector of OpenTelemetry, even if the file does not ask for it
    #[arg(long, help_heading = OPENTELEMETRY)]
    tracing: bool,
    /// Host of the collector instead of that of the file
    #[arg(long, value_name = "HOST", help_heading = OPENTELEMETRY)]
    traces_exporter_host: Option<String>,
    /// Port of the collector instead of that of the file
    #[arg(long, value_name = "PORT", help_heading = OPENTELEMETRY)]
    traces_exporter_port: Option<u16>,
    /// Export metrics to a collector of OpenTelemetry, even if the file does not ask for it
    #[arg(long, help_heading = OPENTELEMETRY)]
    metrics: bool,
    /// Host of the collector of metrics instead of that of the file
    #[arg(long, value_name = "HOST", help_heading = OPENTELEMETRY)]
    metrics_exporter_host: Option<String>,
    /// Port of the collector of metrics instead of that of the file
    #[arg(long, value_name = "PORT", help_heading = OPENTELEMETRY)]
    metrics_exporter_port: Option<u16>,
    /// Log requests that take at least this long, such as 500ms or 2s, with a breakdown of their time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = LOGGING)]
    slow_request: Option<Duration>,
    /// Log every request
    #[arg(long, help_heading = LOGGING)]
    access_log: bool,
    /// Number of threads that serve requests [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Time for requests in progress to finish when the gateway stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Process of the launcher: end with it, and report readiness to it in JSON
    #[arg(long, value_name = "PID", hide = true)]
    parent_pid: Option<u32>,
    /// State directory of the launcher, with the control socket and the logs that the console shows
    #[arg(long, value_name = "FOLDER", requires = "parent_pid", hide = true)]
    state_directory: Option<PathBuf>,
    #[command(flatten)]
    read_options: ReadOptions,
}

pub(crate) async fn run(gateway: Gateway, shell: &Shell) -> anyhow::Result<Exit> {
    let colour = shell.wants_colour;
    shell
        .log
        .start_service(gateway.parent_pid.is_some(), colour, Some(ACCESS_LOG));
    if let Some(parent) = gateway.parent_pid {
        end_with_parent(parent)?;
        if let Some(file) = shell.variable(FILTER_FILE_VARIABLE) {
            follow_filter_file(file.into())?;
        }
    }
    let drain = Drain::new(gateway.grace);
    let drain_of_signals = drain.clone();
    tokio::select! {
        exit = serve(&gateway, &drain, shell) => exit,
        () = on_termination(move || drain_of_signals.begin()) => Ok(Exit::Interrupted),
    }
}

async fn serve(gateway: &Gateway, drain: &Drain, shell: &Shell) -> anyhow::Result<Exit> {
    let draining = drain.watch();
    let mut more = PlacementSource::of(gateway.placement.as_deref());
    let mut placement = tokio::select! {
        placement = placement(gateway, &mut more, shell) => placement?,
        () = draining.begun() => return Ok(Exit::Fine),
    };
    let mut colocated = tokio::select! {
        colocated = ColocatedExecutors::load(&mut placement, gateway.grace) => colocated?,
        () = draining.begun() => return Ok(Exit::Fine),
    };
    let config = Config {
        export: export(gateway, &placement.plan, shell)?,
        colocated: colocated.services(),
        ..config(gateway, &placement.plan)
    };
    let serving = flow_gateway::Gateway::bind(&config, placement).await?;
    if gateway.parent_pid.is_some()
        && let Some(socket) = shell.variable(STATUS_SOCKET_VARIABLE)
    {
        say_status(Path::new(&socket), serving.traffic());
    }
    serving.ask_executors().await;
    let ready = ReadyEvent {
        more_addresses: serving.more_addrs(),
        metrics: serving.metrics_addr(),
        ..ReadyEvent::new(NAME, serving.local_addr())
    };
    let format = match gateway.parent_pid {
        Some(_) => LogFormat::Json,
        None => shell.log.format,
    };
    if let Err(error) = ready.report(format) {
        tracing::debug!(%error, "cannot write to standard output");
    }
    let placements = serving.placements();
    let mut serving = serving.serve(drain);
    let stopped = tokio::select! {
        stopped = &mut serving => stopped,
        stopped = more.follow(&placements) => stopped,
        () = colocated.failed() => {
            drain.begin();
            serving.await
        }
    };
    colocated.end().await?;
    match stopped {
        Stopped::Clean => Ok(Exit::Fine),
        Stopped::Forced => {
            tracing::warn!("the grace period ended with requests in progress");
            Ok(Exit::Failed)
        }
    }
}

/// The cores that this process may use.
fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// A gateway works without the socket, of which only `flow top` makes use.
fn say_status(socket: &Path, traffic: TrafficReader) {
    let status = move || serde_json::to_string(&traffic.read()).unwrap_or_default();
    if let Err(error) = serve_status(socket, status) {
        tracing::info!(%error, "cannot create the status socket: `flow top` does not show requests");
    }
}

fn config(gateway: &Gateway, plan: &Plan) -> Config {
    Config {
        host: gateway
            .host
            .clone()
            .unwrap_or_else(|| plan.gateway.listen_host().to_owned()),
        port: gateway.port.or(plan.gateway.port).unwrap_or(0),
        more_ports: {
            let ports = plan.gateway.more_ports.iter();
            ports.map(|it| it.port.unwrap_or(0)).collect()
        },
        threads: gateway.threads.unwrap_or_else(cores),
        limits: {
            let limits = limits(plan);
            log_limits(&limits);
            limits
        },
        monitoring: (gateway.monitoring || plan.gateway.monitoring.is_some()).then(|| {
            let written = plan.gateway.monitoring.as_ref();
            let written = written.map_or(0, |it| it.port(0));
            gateway.port_monitoring.unwrap_or(written)
        }),
        export: ExportSettings::default(),
        tls: plan.gateway.tls.as_ref().map(credentials::tls_files),
        api_keys: plan.gateway.api_keys.as_ref().map(|keys| ApiKeys {
            file: keys.file.clone(),
            for_health: keys.for_health,
        }),
        jwt: plan.gateway.jwt.clone(),
        supervisor: supervisor(gateway),
        colocated: HashMap::new(),
    }
}

/// The supervisor that started this gateway, if one did.
#[cfg(feature = "launch")]
fn supervisor(gateway: &Gateway) -> Option<Arc<dyn SupervisorClient>> {
    let state_directory = gateway.state_directory.clone()?;
    let client = control_client::ControlClient::new(state_directory);
    Some(Arc::new(client))
}

#[cfg(not(feature = "launch"))]
fn supervisor(_: &Gateway) -> Option<Arc<dyn SupervisorClient>> {
    None
}

/// What is exported to collectors, as the options, the file and the variables `OTEL_*` say.
fn export(gateway: &Gateway, plan: &Plan, shell: &Shell) -> anyhow::Result<ExportSettings> {
    let written = &plan.gateway.telemetry;
    let requested = Requested {
        traces: collector(
            (gateway.tracing, written.traces.as_ref()),
            gateway.traces_exporter_host.as_ref(),
            gateway.traces_exporter_port,
        ),
        metrics: collector(
            (gateway.metrics, written.metrics.as_ref()),
            gateway.metrics_exporter_host.as_ref(),
            gateway.metrics_exporter_port,
        ),
    };
    let variables = ExportSettings::variables(shell.variables.clone());
    ExportSettings::new(RUNTIME, &requested, &variables)
        .map_err(|error| BadUsage(error.to_string()).into())
}

/// The collector of the options and of the file; `None` if neither asks for the export.
fn collector(
    (is_asked_for, written): (bool, Option<&flow_spec::Collector>),
    host: Option<&String>,
    port: Option<u16>,
) -> Option<Collector> {
    (is_asked_for || written.is_some()).then(|| Collector {
        host: host.or(written.and_then(|it| it.host.as_ref())).cloned(),
        port: port.or(written.and_then(|it| it.port)),
    })
}

/// The divisor of the available memory for the default of `memory_max`. Executors on the same machine need most of it.
const MEMORY_SHARE: u64 = 4;

/// Bounds of the default. The lower one lets large messages pass on small machines.
const MEMORY_MIN: u64 = 256 << 20;
const MEMORY_MAX: u64 = 8 << 30;

/// Open connections, and those of one address, if the limit on open files allows as many.
const CONNECTIONS_MAX: u64 = 10_000;

/// Errors of a client after which its connection is closed.
const STREAM_ERRORS_MAX: usize = 10_000;

/// File descriptors kept for connections to executors, logs and the program itself.
const FILES_RESERVED: u64 = 128;

/// The limits of the plan; where it has none, defaults that depend on the memory and the open files of this process.
fn limits(plan: &Plan) -> GatewayLimits {
    let files = flow_net::raise_open_files();
    let connections = files.saturating_sub(FILES_RESERVED).max(files / 2);
    let connections = usize::try_from(connections.min(CONNECTIONS_MAX)).unwrap_or(usize::MAX);
    let memory = flow_net::memory_max().map_or(MEMORY_MIN, |max| max / MEMORY_SHARE);
    let memory = memory.clamp(MEMORY_MIN, MEMORY_MAX);
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    let written = &plan.gateway.limits;
    let mut limits = GatewayLimits {
        connections: ConnectionLimits {
            connections_max: written.connections_max.or(NonZeroUsize::new(connections)),
            per_address_max: written.per_address_max,
            age_max: written.connection_age_max,
            stream_errors_max: Some(STREAM_ERRORS_MAX),
            ..ConnectionLimits::default()
        },
        memory_max: Some(written.memory_max.map_or(memory, NonZeroUsize::get)),
        ..GatewayLimits::default()
    };
    if let Some(depth) = written.nesting_max {
        limits.requests.documents.depth_max = depth.get();
    }
    if let Some(documents) = written.documents_max {
        limits.requests.documents.documents_max = documents.get();
    }
    if let Some(len) = written.decompressed_max {
        limits.messages.decompressed_len_max = len.get();
    }
    limits
}

/// Logs the limits, of which those without a value in the flow file depend on the machine.
fn log_limits(limits: &GatewayLimits) {
    let memory = limits.memory_max.unwrap_or_default() >> 20;
    let connections = limits.connections.connections_max;
    let connections = connections.map_or(0, NonZeroUsize::get);
    tracing::info!(
        "at most {memory} MiB of requests and replies (`memory_max`), and {connections} connections (`connections_max`)"
    );
}

async fn placement(
    gateway: &Gateway,
    source: &mut PlacementSource,
    shell: &Shell,
) -> anyhow::Result<Placement> {
    match &gateway.file {
        Some(file) => place(gateway, file, shell),
        None => source.first(shell).await,
    }
}

/// Places the nodes of a flow file at the addresses of the options.
fn place(gateway: &Gateway, file: &Path, shell: &Shell) -> anyhow::Result<Placement> {
    let checked = flow_file::load(file, gateway.read_options, shell)?;
    flow_file::warn(file, &checked, shell);
    let mut plan = Plan::from(checked.flow);
    if gateway.slow_request.is_some() {
        plan.gateway.logging.slow = gateway.slow_request;
    }
    plan.gateway.logging.all |= gateway.access_log;
    resolve_folders(&mut plan, file, shell)?;
    let mut given =
        parse_addresses(&gateway.addresses).context(BadUsage(BAD_ADDRESSES.to_owned()))?;
    let mut local = BTreeMap::new();
    for (at, node) in plan.nodes() {
        if matches!(node.run, Run::Local(_)) {
            let found = given.remove(node.name.as_str()).filter(|it| !it.is_empty());
            let missing = || BadUsage(format!("`--addresses` has none for `{}`", node.name));
            let colocated = || {
                node.colocated()
                    .map(|_| NodeAddresses::colocated(&node.name))
            };
            let found = found.map(NodeAddresses::replicas).or_else(colocated);
            local.insert(at, found.with_context(missing)?);
        }
    }
    if let Some(name) = given.keys().next() {
        bail!(BadUsage(format!(
            "`--addresses` names `{name}`, which the flow does not start"
        )));
    }
    Ok(Placement::new(plan, |at| {
        local.remove(&at).unwrap_or_default()
    }))
}

fn parse_addresses(json: &str) -> anyhow::Result<BTreeMap<String, Vec<Address>>> {
    let texts: BTreeMap<String, Vec<String>> = serde_json::from_str(json)?;
    let parse = |texts: Vec<String>| -> anyhow::Result<Vec<Address>> {
        texts.iter().map(|it| parse_address(it)).collect()
    };
    texts
        .into_iter()
        .map(|(name, texts)| anyhow::Ok((name, parse(texts)?)))
        .collect()
}

fn parse_address(text: &str) -> anyhow::Result<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        let unix = path.strip_prefix("//").unwrap_or(path).into();
        return Ok(Address::Unix { unix });
    }
    if let Some(service) = text.strip_prefix("srv://") {
        let service = ServiceAddress::parse(service);
        let service = service.map_err(|why| anyhow!("`{text}` {why}"))?;
        return Ok(Address::Service(service));
    }
    let (tls, rest) = match text.split_once("://") {
        None | Some(("grpc" | "http", _)) => (false, text.rsplit("://").next().unwrap_or(text)),
        Some(("grpcs" | "https", rest)) => (true, rest),
        Some((scheme, _)) => bail!("`{scheme}` in `{text}` is neither grpc, grpcs nor srv"),
    };
    let (host, port) = rest
        .rsplit_once(':')
        .with_context(|| format!("`{text}` has no port"))?;
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let port = port
        .parse()
        .with_context(|| format!("`{port}` in `{text}` is not a port"))?;
    Ok(Address::Tcp(TcpAddress { tls, host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let found = parse_address(text);
        let found = found.map(|it| it.to_string()).map_err(|it| it.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        check("grpc://10.0.0.7:54400", Ok("http://10.0.0.7:54400"));
        check("grpcs://far:9", Ok("https://far:9"));
        check("far:9", Ok("http://far:9"));
        check("grpc://[::1]:9", Ok("http://[::1]:9"));
        check("far", Err("`far` has no port"));
        check("far:no", Err("`no` in `far:no` is not a port"));
        check(
            "ftp://far:9",
            Err("`ftp` in `ftp://far:9` is neither grpc, grpcs nor srv"),
        );
    }
}
