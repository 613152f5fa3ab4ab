//! Benchmark: the cost of observing a flow, and of an unavailable collector of OpenTelemetry: unary calls through a gateway to an
//! executor that does nothing.
//!
//! All configurations run at once and are loaded in turn, each round in another order, so a machine that slows down is slow
//! for all of them. What counts is the ratio within a round. Memory is read after each round.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::bench::participants::{Bench, System};
use crate::bench::process::Server;
use crate::bench::report::{Report, Table};
use crate::bench::request::{SIZES, Size};
use crate::bench::{h2load, memory, ours};
use crate::statistics::median;

const OFF: &str = "nothing";
const SERVED: &str = "monitoring";
const EXPORTED: &str = "traces and metrics exported";
const ALL: &str = "and access log";
const KILLED: &str = "collector killed";
const SILENT: &str = "collector never reads";
const DROPPING: &str = "address drops";

const COLUMNS: [&str; 7] = [OFF, SERVED, EXPORTED, ALL, KILLED, SILENT, DROPPING];

/// Those that have the options of [`ALL`], and a collector that is gone.
const GONE: [&str; 3] = [KILLED, SILENT, DROPPING];

/// The part of the rate that each may cost, of which rate.
const BARS: [(&str, &str, f64); 5] = [
    (SERVED, OFF, 0.03),
    (ALL, OFF, 0.08),
    (KILLED, ALL, 0.02),
    (SILENT, ALL, 0.02),
    (DROPPING, ALL, 0.02),
];

/// Megabytes that a process may have more while its collector is gone: more than with one that answers, and more at the end than
/// at the beginning.
const MEMORY_BAR: f64 = 5.0;

/// Loads of each configuration before anything is measured.
const WARM_UPS: usize = 2;

/// How long a connection to a full listener is tried for.
const CONNECT_MAX: Duration = Duration::from_millis(200);

/// The 32 documents of 3 KB.
const SIZE: &Size = &SIZES[1];

/// One flow under load.
struct Target {
    column: &'static str,
    flow: ours::Flow,
}

/// Servers in place of collectors.
struct Collectors {
    answering: Server,
    /// Until it is killed.
    killed: Option<Server>,
    killed_url: String,
    silent: SocketAddr,
    dropping: Dropping,
}

/// A port at which the kernel drops each further attempt to connect, because those that wait are not accepted.
struct Dropping {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    if !bench.has(System::Flow) {
        return Ok(());
    }
    h2load::look_for()?;
    let mut collectors = Collectors::start()?;
    let mut targets = COLUMNS
        .into_iter()
        .map(|column| start(column, &collectors, report))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let request = report.scratch("request.bin");
    fs::write(&request, SIZE.frame())?;
    for target in targets.iter().cycle().take(WARM_UPS * COLUMNS.len()) {
        load(target, &request)?;
    }
    drop(collectors.killed.take());
    let mut rates = Table::new(COLUMNS, "requests/s");
    let mut sizes = Table::new(COLUMNS, "MB resident");
    note_memory(&targets, &mut sizes)?;
    let mut loaded = Duration::ZERO;
    let wanted = bench.load * u32::try_from(COLUMNS.len())?;
    for round in 0.. {
        for target in &targets {
            let began = Instant::now();
            let rate = load(target, &request)?;
            loaded += began.elapsed();
            eprintln!("{} · round {round}: {rate:.0} requests/s", target.column);
            rates.add(SIZE.name, target.column, rate);
        }
        note_memory(&targets, &mut sizes)?;
        targets.rotate_left(1);
        if wanted <= loaded {
            break;
        }
    }
    report.write("collector", &rates, &verdict(&rates))?;
    report.write("collector-memory", &sizes, &memory_verdict(&sizes))
}

fn load(target: &Target, request: &Path) -> anyhow::Result<f64> {
    let url = format!("http://127.0.0.1:{}", target.flow.port);
    h2load::run(&url, request, SIZE.requests)
}

/// Starts the flow of one configuration.
fn start(column: &'static str, collectors: &Collectors, report: &Report) -> anyhow::Result<Target> {
    let with = match column {
        OFF => "{}",
        SERVED => "{monitoring: true}",
        EXPORTED => "{monitoring: true, tracing: true, metrics: true}",
        _ => "{monitoring: true, tracing: true, metrics: true, access_log: true}",
    };
    let endpoint = match column {
        KILLED => collectors.killed_url.clone(),
        SILENT => format!("http://{}", collectors.silent),
        DROPPING => format!("http://{}", collectors.dropping.address),
        _ => url_of(&collectors.answering)?,
    };
    let file = flow_file(column, with, report)?;
    let file = file.to_str().context("a path that is not valid Unicode")?;
    let flow = ours::up_in(
        file,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.1"),
            // The metrics are exported a dozen times a minute, so that a short run has exports in it.
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
        ],
    )?;
    Ok(Target { column, flow })
}

fn flow_file(column: &str, with: &str, report: &Report) -> anyhow::Result<PathBuf> {
    let file = report.scratch(&format!("collector-{}.yml", column.replace(' ', "-")));
    let text = format!("jtype: Flow\nwith: {with}\nexecutors: [{{name: echo, uses: echo}}]\n");
    fs::write(&file, text)?;
    Ok(file)
}

impl Collectors {
    fn start() -> anyhow::Result<Self> {
        let collector = || Server::start(ours::program("bare-axum").arg("collector"), "ready");
        let killed = collector()?;
        Ok(Self {
            answering: collector()?,
            killed_url: url_of(&killed)?,
            killed: Some(killed),
            silent: silent()?,
            dropping: Dropping::start()?,
        })
    }
}

/// Where a server listens, whose ready line ends with its address.
fn url_of(server: &Server) -> anyhow::Result<String> {
    let address = server.ready.rsplit(' ').next();
    let address = address.context("it reported no address")?;
    Ok(format!("http://{address}"))
}

/// A port at which connections are accepted and nothing is ever read.
fn silent() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    // The thread ends with the program.
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            held.extend(stream);
        }
    });
    Ok(address)
}

impl Dropping {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        rustix::net::listen(&listener, 0)?;
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, CONNECT_MAX) {
            waiting.push(stream);
        }
        Ok(Self {
            address,
            _listener: listener,
            _waiting: waiting,
        })
    }
}

/// Adds the memory of each gateway and each executor.
fn note_memory(targets: &[Target], table: &mut Table) -> anyhow::Result<()> {
    let processes = memory::processes()?;
    for target in targets {
        for process in memory::family(target.flow.server.id(), &processes) {
            let words = ["gateway", "executor"];
            let role = words.iter().find(|it| process.role.contains(**it));
            if let Some(role) = role {
                table.add(role, target.column, process.resident_mb);
            }
        }
    }
    Ok(())
}

/// The median of the ratios within each round.
fn ratio(rates: &Table, column: &str, to: &str) -> Option<f64> {
    let pairs = rates
        .values(SIZE.name, column)?
        .iter()
        .zip(rates.values(SIZE.name, to)?);
    let ratios: Vec<f64> = pairs.map(|(rate, to)| rate / to).collect();
    Some(median(&ratios))
}

fn verdict(rates: &Table) -> String {
    let lines = BARS.iter().filter_map(|(column, to, bar)| {
        let cost = 1.0 - ratio(rates, column, to)?;
        let (cost, bar) = (cost * 100.0, bar * 100.0);
        Some(format!(
            "- {column}: costs {cost:.1} % of the rate of `{to}`; the bar is {bar:.0} %\n"
        ))
    });
    format!(
        "10 % of requests are traced. The columns from `{KILLED}` on have the options of `{ALL}`. Costs are medians of \
         ratios within rounds.\n\n{}",
        lines.collect::<String>()
    )
}

/// What processes hold more than with a collector that answers, and by how much they grew. The memory of a process goes up and
/// down by some megabytes from round to round, so medians are compared.
fn memory_verdict(sizes: &Table) -> String {
    let rows = COLUMNS
        .into_iter()
        .flat_map(|column| ["gateway", "executor"].map(|role| memory_line(sizes, role, column)));
    rows.flatten().collect()
}

fn memory_line(sizes: &Table, role: &str, column: &str) -> Option<String> {
    let values = sizes.values(role, column)?;
    let third = values.len().div_ceil(3);
    let grown = median(&values[values.len() - third..]) - median(&values[..third]);
    let line = format!(
        "- {column}, {role}: {grown:+.1} MB from the first third of the rounds to the last"
    );
    if !GONE.contains(&column) {
        return Some(line + "\n");
    }
    let more = median(values) - median(sizes.values(role, ALL)?);
    Some(format!(
        "{line}, {more:+.1} MB compared with `{ALL}`; the bar is {MEMORY_BAR:.0} MB\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_median_of_ratios_within_rounds() {
        let mut rates = Table::new(COLUMNS, "requests/s");
        for (off, all) in [(100.0, 95.0), (50.0, 46.0), (10.0, 1.0)] {
            rates.add(SIZE.name, OFF, off);
            rates.add(SIZE.name, ALL, all);
        }
        let verdict = verdict(&rates);
        let expected = "and access log: costs 8.0 % of the rate of `nothing`; the bar is 8 %";
        assert!(verdict.contains(expected), "{verdict}");
        assert!(!verdict.contains(SERVED));
    }

    #[test]
    fn growth_is_the_difference_of_medians() {
        let mut sizes = Table::new(COLUMNS, "MB resident");
        for size in [10.0, 11.0, 30.0, 12.0, 13.0, 14.0] {
            sizes.add("gateway", SILENT, size);
            sizes.add("gateway", ALL, size + 1.0);
        }
        let expected = "- and access log, gateway: +3.0 MB from the first third of the rounds to the last\n\
                        - collector never reads, gateway: +3.0 MB from the first third of the rounds to the last, \
                        -1.0 MB compared with `and access log`; the bar is 5 MB\n";
        assert_eq!(memory_verdict(&sizes), expected);
    }

    #[test]
    fn a_full_listener_accepts_no_connections() {
        let dropping = Dropping::start().unwrap();
        let connected = TcpStream::connect_timeout(&dropping.address, CONNECT_MAX);
        assert_eq!(connected.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }
}
