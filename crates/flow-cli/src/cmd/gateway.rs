//! `flow gateway`: the process clients talk to.
//!
//! It is started by `flow up`, which writes placements to its standard input, or by people who run
//! executors themselves and say where.

mod placements;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flow_executor::Addresses;
use flow_gateway::Config;
use flow_net::{Drain, Limits, Stopped};
use flow_spec::{Address, Placement, Places, Plan, Run};

use crate::exit::{BadUsage, Exit};
use crate::flow_file;
use crate::shell::Shell;
use placements::Source;

/// What the gateway calls itself when it is ready.
const NAME: &str = "gateway";

const BAD_ADDRESSES: &str =
    "`--addresses` must be JSON such as `{\"encoder\": [\"grpc://host:port\"]}`";

/// Options of `flow gateway`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow gateway flows/encode.yml --addresses '{\"encoder\": [\"grpc://10.0.0.7:54400\"]}'")]
pub(crate) struct Gateway {
    /// Flow file to serve
    #[arg(value_name = "FLOW.yml", required_unless_present = "placement")]
    file: Option<PathBuf>,
    /// Addresses of the executors that `flow up` would start, as a JSON object from executor name to list
    /// of addresses
    #[arg(long, value_name = "JSON", requires = "file", default_value = "{}")]
    addresses: String,
    /// Read a placed plan as one line of JSON; `-` is standard input, where each further line is a plan
    /// that takes the place of the one before.
    #[arg(long, value_name = "FILE", conflicts_with = "file", hide = true)]
    placement: Option<PathBuf>,
    /// Listen on this address instead of the file's
    #[arg(long)]
    host: Option<String>,
    /// Listen on this port instead of the file's; 0 picks a free one
    #[arg(long)]
    port: Option<u16>,
    /// Serve metrics for Prometheus at /metrics, even if the file does not ask for it
    #[arg(long)]
    monitoring: bool,
    /// Serve the metrics on this port instead of the file's; 0 picks a free one
    #[arg(long, value_name = "PORT")]
    port_monitoring: Option<u16>,
    /// Number of threads that serve requests [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Time that requests under way get to finish when the gateway stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// The launcher that started this process; end with it, and tell it in JSON when ready.
    #[arg(long, value_name = "PID", hide = true)]
    child_of: Option<u32>,
}

pub(crate) async fn run(gateway: Gateway, shell: &Shell) -> anyhow::Result<Exit> {
    let colour = shell.wants_colour;
    shell.log.start_service(gateway.child_of.is_some(), colour);
    if let Some(parent) = gateway.child_of {
        flow_executor::die_with(parent)?;
    }
    let drain = Drain::new(gateway.grace);
    tokio::select! {
        exit = serve(&gateway, &drain, shell) => exit,
        () = drain.clone().follow_signals() => Ok(Exit::Interrupted),
    }
}

async fn serve(gateway: &Gateway, drain: &Drain, shell: &Shell) -> anyhow::Result<Exit> {
    let draining = drain.watch();
    let mut more = Source::of(gateway.placement.as_deref());
    let placement = tokio::select! {
        placement = placement(gateway, &mut more, shell) => placement?,
        () = draining.begun() => return Ok(Exit::Fine),
    };
    let config = config(gateway, &placement.plan);
    let serving = flow_gateway::Gateway::bind(&config, placement).await?;
    let to_launcher = gateway.child_of.is_some();
    // A launcher that does not listen has gone; the kernel ends this process too.
    drop(flow_executor::announce(
        NAME,
        &Addresses {
            serving: serving.local_addr(),
            metrics: serving.metrics_addr(),
        },
        &BTreeMap::new(),
        to_launcher,
    ));
    let placements = serving.placements();
    let stopped = tokio::select! {
        stopped = serving.serve(drain) => stopped,
        stopped = more.follow(&placements) => stopped,
    };
    match stopped {
        Stopped::Clean => Ok(Exit::Fine),
        Stopped::Forced => {
            tracing::warn!("the grace period ended with requests under way");
            Ok(Exit::Failed)
        }
    }
}

fn config(gateway: &Gateway, plan: &Plan) -> Config {
    Config {
        host: gateway
            .host
            .clone()
            .unwrap_or_else(|| plan.gateway.host.clone()),
        port: gateway.port.or(plan.gateway.port).unwrap_or(0),
        limits: Limits::default(),
        monitoring: (gateway.monitoring || plan.gateway.monitoring.is_some()).then(|| {
            let written = plan.gateway.monitoring.as_ref();
            let written = written.map_or(0, |it| it.port(0));
            gateway.port_monitoring.unwrap_or(written)
        }),
    }
}

async fn placement(
    gateway: &Gateway,
    source: &mut Source,
    shell: &Shell,
) -> anyhow::Result<Placement> {
    match &gateway.file {
        Some(file) => place(file, &gateway.addresses, shell),
        None => source.first().await,
    }
}

/// Places the nodes of a flow file where `addresses` says.
fn place(file: &Path, addresses: &str, shell: &Shell) -> anyhow::Result<Placement> {
    let checked = flow_file::load(file, shell)?;
    flow_file::warn(file, &checked, shell);
    let plan = Plan::from(checked.flow);
    let mut given = parse_addresses(addresses).context(BadUsage(BAD_ADDRESSES.to_owned()))?;
    let mut local = BTreeMap::new();
    for (at, node) in plan.nodes() {
        if matches!(node.run, Run::Local(_)) {
            let found = given.remove(node.name.as_str()).filter(|it| !it.is_empty());
            let missing = || BadUsage(format!("`--addresses` has none for `{}`", node.name));
            local.insert(at, found.with_context(missing)?);
        }
    }
    if let Some(name) = given.keys().next() {
        bail!(BadUsage(format!(
            "`--addresses` names `{name}`, which the flow does not start"
        )));
    }
    Ok(Placement::new(plan, |at| {
        Places::replicas(local.remove(&at).unwrap_or_default())
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
    let (tls, rest) = match text.split_once("://") {
        None | Some(("grpc" | "http", _)) => (false, text.rsplit("://").next().unwrap_or(text)),
        Some(("grpcs" | "https", rest)) => (true, rest),
        Some((scheme, _)) => bail!("`{scheme}` in `{text}` is neither grpc nor grpcs"),
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
        .with_context(|| format!("`{port}` in `{text}` is no port"))?;
    Ok(Address { tls, host, port })
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
        check("far:no", Err("`no` in `far:no` is no port"));
        check(
            "ftp://far:9",
            Err("`ftp` in `ftp://far:9` is neither grpc nor grpcs"),
        );
    }
}
