//! Benchmark: the cost of the gateway over HTTP/1.1, and of TLS.
//!
//! Beside us run the least that any gateway costs, bare axum that forwards bodies to an echo, and stock Jina's HTTP gateway.
//! The rows with TLS send the same requests over HTTP/2 through two ports of flow, one of them with a certificate.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::json;

use crate::bench::corpus::SENTENCE;
use crate::bench::participants::{Bench, System};
use crate::bench::process::Server;
use crate::bench::report::{Report, Table};
use crate::bench::request::SIZES;
use crate::bench::{h2load, ours};
use crate::shell;
use crate::statistics::median;

const PROXY: &str = "bare axum proxy";
const FLOW: &str = "flow";
const FLOW_TLS: &str = "flow with TLS";
const JINA: &str = "Jina 3.27";

/// Requests of a run; Jina gets a twentieth of them, for it would take minutes.
const REQUESTS: usize = 30_000;
const JINA_SLOWER: usize = 20;

/// flow over bare axum, over Jina, and with TLS over without.
const BAR_AXUM: f64 = 0.8;
const BAR_JINA: f64 = 25.0;
const BAR_TLS: f64 = 0.75;

const ROWS: [(&str, usize); 2] = [("HTTP/1.1, 1 document", 1), ("HTTP/1.1, 32 documents", 32)];
const TLS_ROW: &str = "gRPC, 1 document";

/// One system under load.
struct Target {
    name: &'static str,
    url: String,
    slower: usize,
    _servers: Vec<Server>,
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let targets = start(bench)?;
    let secure = with_tls(report)?;
    let names = targets.iter().map(|target| target.name);
    let mut table = Table::new(names.chain([FLOW_TLS]), "requests/s");
    // The first round warms up.
    for round in 0..=bench.rounds {
        for (row, documents) in ROWS {
            for target in &targets {
                let rate = rate(target, documents, report)?;
                eprintln!(
                    "{row} · {} · round {round}: {rate:.0} requests/s",
                    target.name
                );
                if round > 0 {
                    table.add(row, target.name, rate);
                }
            }
        }
        for target in targets.iter().filter(|it| it.name == FLOW).chain([&secure]) {
            let rate = rate_of_grpc(target, report)?;
            eprintln!(
                "{TLS_ROW} · {} · round {round}: {rate:.0} requests/s",
                target.name
            );
            if round > 0 {
                table.add(TLS_ROW, target.name, rate);
            }
        }
    }
    report.write("http-gateway", &table, &verdict(&table))
}

fn rate(target: &Target, documents: usize, report: &Report) -> anyhow::Result<f64> {
    let body = json!({
        "execEndpoint": "/any",
        "data": vec![json!({ "text": SENTENCE }); documents],
    });
    let path = report.scratch("request.json");
    std::fs::write(&path, body.to_string())?;
    let url = format!("{}/post", target.url);
    h2load::run_http1(&url, &path, REQUESTS / target.slower)
}

fn rate_of_grpc(target: &Target, report: &Report) -> anyhow::Result<f64> {
    let path = report.scratch("request.bin");
    std::fs::write(&path, SIZES[0].frame())?;
    h2load::run(&target.url, &path, REQUESTS)
}

fn start(bench: &Bench) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    if bench.has(System::Bare) {
        let (echo, echo_url) = bare(&["echo"])?;
        let (proxy, url) = bare(&["proxy", &echo_url])?;
        targets.push(Target {
            name: PROXY,
            url,
            slower: 1,
            _servers: vec![proxy, echo],
        });
    }
    if bench.has(System::Flow) {
        targets.push(target(FLOW, 1, ours::up("flows/echo.yml")?));
    }
    if let Some(python) = bench.jina()? {
        targets.push(target(JINA, JINA_SLOWER, ours::jina_noop(&python, "http")?));
    }
    Ok(targets)
}

fn target(name: &'static str, slower: usize, flow: ours::Flow) -> Target {
    Target {
        name,
        url: format!("http://127.0.0.1:{}", flow.port),
        slower,
        _servers: vec![flow.server],
    }
}

/// Starts bare-axum, whose ready line ends with its address.
fn bare(args: &[&str]) -> anyhow::Result<(Server, String)> {
    let server = Server::start(ours::program("bare-axum").args(args), "ready")?;
    let address = server.ready.rsplit(' ').next();
    let url = format!("http://{}", address.context("it reported no address")?);
    Ok((server, url))
}

/// The same flow with a certificate that `openssl` makes.
fn with_tls(report: &Report) -> anyhow::Result<Target> {
    let (key, certificate) = (report.scratch("gateway.key"), report.scratch("gateway.pem"));
    make_certificate(&key, &certificate)?;
    let file = report.scratch("echo-tls.yml");
    let yaml = format!(
        "jtype: Flow\ngateway: {{ssl_certfile: {certificate:?}, ssl_keyfile: {key:?}}}\n\
         executors: [{{name: echo, uses: echo}}]\n"
    );
    std::fs::write(&file, yaml)?;
    let flow = ours::up(&file.to_string_lossy())?;
    let url = format!("https://127.0.0.1:{}", flow.port);
    Ok(Target {
        url,
        ..target(FLOW_TLS, 1, flow)
    })
}

fn make_certificate(key: &Path, certificate: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("openssl");
    command.args(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(' '),
    );
    command.args(["-subj", "/CN=localhost", "-keyout"]).arg(key);
    let made = shell::output(command.arg("-out").arg(certificate));
    made.map(drop)
        .context("`openssl` is needed for a certificate")
}

fn verdict(table: &Table) -> String {
    let mut lines = Vec::new();
    for (row, _) in ROWS {
        if let Some(ratio) = ratio(table, row, FLOW, PROXY) {
            lines.push(format!(
                "- {row}: flow is at {ratio:.2} of the bare proxy (the bar: {BAR_AXUM})\n"
            ));
        }
        if let Some(ratio) = ratio(table, row, FLOW, JINA) {
            lines.push(format!(
                "- {row}: flow is at {ratio:.1} times Jina (the bar: {BAR_JINA})\n"
            ));
        }
    }
    if let Some(ratio) = ratio(table, TLS_ROW, FLOW_TLS, FLOW) {
        lines.push(format!(
            "- {TLS_ROW}: with TLS at {ratio:.2} of without (the bar: {BAR_TLS})\n"
        ));
    }
    lines.concat()
}

/// The rate of one system over that of another.
fn ratio(table: &Table, row: &str, above: &str, below: &str) -> Option<f64> {
    let rate = |system| table.values(row, system).map(median);
    Some(rate(above)? / rate(below)?)
}
