//! Benchmark: the cost of the gateway itself: unary calls through it to an executor that does nothing.
//!
//! Beside us runs the least that any gateway costs: bare tonic that forwards bytes to an echo, and proxies written in C
//! in front of the same echo. The bar is the ratio to the former, in the same round.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::bench::participants::{Bench, System, Version, comparison};
use crate::bench::process::Server;
use crate::bench::report::{Report, Table};
use crate::bench::request::{SIZES, Size};
use crate::bench::{h2load, ours, proxies};
use crate::shell;
use crate::statistics::median;

/// Ours over the bare proxy, at the two larger sizes.
const BAR: f64 = 0.75;

/// Ours over HAProxy in front of the same echo, at all sizes.
const HAPROXY_BAR: f64 = 0.9;

/// One system under load.
struct Target {
    name: String,
    url: String,
    /// Requests of a run are divided by this: slow systems would take minutes.
    slower: usize,
    _servers: Vec<Server>,
}

const ECHO: &str = "bare tonic echo";
const PROXY: &str = "bare tonic proxy";
const FLOW: &str = "flow";
/// A flow whose executor runs in the process of the gateway.
const COLOCATED: &str = "flow, colocated";
const JINA: &str = "Jina 3.27";
const HAPROXY: &str = "HAProxy";
const NGINX: &str = "nginx";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let targets = start(bench, report)?;
    let names = targets.iter().map(|target| target.name.as_str());
    let mut table = Table::new(names, "requests/s");
    for size in SIZES {
        let request = write_request(report, size)?;
        for target in &targets {
            answers_well(&target.url, &request)
                .with_context(|| format!("{} does not answer", target.name))?;
        }
        for round in 0..bench.rounds {
            for target in &targets {
                let rate = h2load::run(&target.url, &request, size.requests / target.slower)?;
                eprintln!(
                    "{} · {} · round {round}: {rate:.0} requests/s",
                    size.name, target.name
                );
                table.add(size.name, &target.name, rate);
            }
        }
    }
    report.write("gateway", &table, &verdict(&table))
}

fn start(bench: &Bench, report: &Report) -> anyhow::Result<Vec<Target>> {
    let mut targets = start_proxies(bench, report)?;
    if bench.has(System::Flow) {
        for version in bench.versions() {
            let flow = version.up("flows/echo.yml")?;
            targets.push(target(version.name(FLOW), 1, flow));
        }
        let file = report.scratch("colocated.yml");
        std::fs::write(&file, ours::flow_file(None, true))?;
        let flow = Version::New.up(&file.to_string_lossy())?;
        targets.push(target(COLOCATED.to_owned(), 1, flow));
    }
    if let Some(python) = bench.jina()? {
        targets.push(target(
            JINA.to_owned(),
            20,
            ours::jina_noop(&python, "grpc")?,
        ));
    }
    Ok(targets)
}

/// The bare echo, and what forwards requests to it.
fn start_proxies(bench: &Bench, report: &Report) -> anyhow::Result<Vec<Target>> {
    let wanted = [System::Bare, System::Haproxy, System::Nginx];
    if !wanted.iter().any(|system| bench.has(*system)) {
        return Ok(Vec::new());
    }
    let (echo, echo_url) = bare_tonic(&["echo"])?;
    let address = echo_url.trim_start_matches("http://").to_owned();
    let mut started = Vec::new();
    if bench.has(System::Bare) {
        started.push((PROXY, bare_tonic(&["proxy", &echo_url])?));
    }
    if bench.has(System::Haproxy) {
        started.push((HAPROXY, proxies::haproxy(report, &address)?));
    }
    if bench.has(System::Nginx) {
        started.push((NGINX, proxies::nginx(report, &address)?));
    }
    started.insert(0, (ECHO, (echo, echo_url)));
    let targets = started.into_iter().map(|(name, (server, url))| Target {
        name: name.to_owned(),
        url,
        slower: 1,
        _servers: vec![server],
    });
    Ok(targets.collect())
}

fn target(name: String, slower: usize, flow: ours::Flow) -> Target {
    let url = format!("http://127.0.0.1:{}", flow.port);
    Target {
        name,
        url,
        slower,
        _servers: vec![flow.server],
    }
}

/// Starts bare-tonic, whose ready line ends with its address.
pub(super) fn bare_tonic(args: &[&str]) -> anyhow::Result<(Server, String)> {
    let server = Server::start(ours::program("bare-tonic").args(args), "ready")?;
    let address = server
        .ready
        .rsplit(' ')
        .next()
        .context("it reported no address")?;
    let url = format!("http://{address}");
    Ok((server, url))
}

fn write_request(report: &Report, size: &Size) -> anyhow::Result<PathBuf> {
    let path = report.scratch("request.bin");
    std::fs::write(&path, size.frame())?;
    Ok(path)
}

/// h2load would count an answer with a bad grpc-status as a good one.
fn answers_well(url: &str, request: &Path) -> anyhow::Result<()> {
    let mut command = ours::program("bare-tonic");
    shell::output(command.args(["call", url]).arg(request)).map(drop)
}

fn verdict(table: &Table) -> String {
    let ratios = [PROXY, HAPROXY, NGINX]
        .map(|peer| ratios(table, peer))
        .concat();
    let rows: Vec<&str> = SIZES.iter().map(|size| size.name).collect();
    let change = comparison(table, &rows, &[FLOW]);
    if ratios.is_empty() {
        return change;
    }
    format!(
        "The bars are {BAR} of the bare proxy at the two larger sizes, and {HAPROXY_BAR} of HAProxy.\n\n{ratios}{change}"
    )
}

/// A line for each size at which both were measured.
fn ratios(table: &Table, peer: &str) -> String {
    let line = |size: &Size| {
        let rate = |system| Some(median(table.values(size.name, system)?));
        let peer_rate = rate(peer)?;
        let ratio = rate(FLOW)? / peer_rate;
        let colocated = rate(COLOCATED)
            .map(|rate| format!(", {:.2} if its executor is colocated", rate / peer_rate));
        let colocated = colocated.unwrap_or_default();
        Some(format!(
            "- {}: flow is at {ratio:.2} of {peer}{colocated}\n",
            size.name
        ))
    };
    SIZES.iter().filter_map(line).collect()
}
