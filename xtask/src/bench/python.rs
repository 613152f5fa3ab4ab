//! Benchmark: the cost of an executor in Python that does nothing: unary calls through a gateway, how long they take at a rate that
//! both systems keep up with, and `client.post` with each system's own package.
//!
//! The same file runs on our runtime behind our gateway, and in Jina's own flow.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::bench::request::{SIZES, Size};
use crate::bench::{h2load, ours};
use crate::statistics::median;
use crate::{setup, shell};

const FLOW: &str = "flow";
const JINA: &str = "Jina 3.27";

/// Ours over Jina's, in requests per second.
const BAR: f64 = 8.0;

/// Our 99th percentile over Jina's.
const LATENCY_BAR: f64 = 0.25;

/// Jina's time for `client.post` over ours.
const POST_BAR: f64 = 10.0;

/// Requests in a second when times are measured, and how many are measured.
const RATE: usize = 500;
const TIMED: usize = 5_000;

/// The script that posts 10,000 small documents in several ways.
const CLIENT: &str = "tests/load/python_client.py";

/// Runs have fewer requests than those of executors in Rust by this factor.
const SLOWER: usize = 4;
const SLOWER_JINA: usize = 40;

/// One of the two systems.
struct Target {
    name: &'static str,
    /// Runs have fewer requests by this factor.
    slower: usize,
    flow: ours::Flow,
    /// Its interpreter, with its package.
    python: PathBuf,
}

impl Target {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.flow.port)
    }

    /// The script that posts documents, with this system's package.
    fn client(&self) -> Command {
        let mut command = match self.name {
            FLOW => {
                let mut command = ours::program("flow");
                command.arg("python").env("FLOW_PYTHON", &self.python);
                command.env("FLOW_PYTHON_RUNTIME", "flow");
                command
            }
            _ => Command::new(&self.python),
        };
        command.arg(ours::root(CLIENT));
        command.arg(self.flow.port.to_string());
        command
    }
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let targets = start(bench)?;
    let columns = || targets.iter().map(|target| target.name);
    let mut rates = Table::new(columns(), "requests/s");
    let mut times = Table::new(columns(), "ms, 99th percentile");
    // Without vectors: the executor looks at none.
    for size in &SIZES[..2] {
        let request = write_request(report, size)?;
        for target in &targets {
            let answered = check(&target.url(), &request);
            answered.with_context(|| format!("{} does not answer", target.name))?;
        }
        for round in 0..bench.rounds {
            for target in &targets {
                let rate = h2load::run(&target.url(), &request, size.requests / target.slower)?;
                let time = percentile(report, target, &request)?;
                let (row, column) = (size.name, target.name);
                eprintln!("{row} · {column} · round {round}: {rate:.0} requests/s, {time:.2} ms");
                rates.add(row, column, rate);
                times.add(row, column, time);
            }
        }
    }
    report.write("python", &rates, &verdict(&rates))?;
    report.write("python-latency", &times, &latency_verdict(&times))?;
    let posts = posts(bench, &targets)?;
    report.write("python-client", &posts, &post_verdict(&posts))
}

/// The time within which 99 of 100 requests are answered.
fn percentile(report: &Report, target: &Target, request: &Path) -> anyhow::Result<f64> {
    let log = report.scratch("times.log");
    let mut times = h2load::times_at(&target.url(), request, (RATE, TIMED), &log)?;
    times.sort_by(f64::total_cmp);
    let last = times
        .len()
        .checked_sub(1)
        .context("no request was answered")?;
    Ok(times[last * 99 / 100])
}

/// Seconds for `client.post` of 10,000 documents, in several ways.
fn posts(bench: &Bench, targets: &[Target]) -> anyhow::Result<Table> {
    let mut table = Table::new(targets.iter().map(|target| target.name), "seconds");
    for round in 0..bench.rounds {
        for target in targets {
            let output = shell::output(&mut target.client())?;
            for line in output.lines() {
                let (row, seconds) = line.split_once(": ").context("no time was printed")?;
                eprintln!("{row} · {} · round {round}: {seconds} s", target.name);
                table.add(row, target.name, seconds.parse()?);
            }
        }
    }
    Ok(table)
}

fn start(bench: &Bench) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    if bench.has(System::Flow) {
        let python = setup::install_release_package()?;
        targets.push(Target {
            name: FLOW,
            slower: SLOWER,
            flow: ours::python_noop(&python)?,
            python,
        });
    }
    if let Some(python) = bench.jina()? {
        targets.push(Target {
            name: JINA,
            slower: SLOWER_JINA,
            flow: ours::jina_python_noop(&python)?,
            python,
        });
    }
    Ok(targets)
}

fn write_request(report: &Report, size: &Size) -> anyhow::Result<PathBuf> {
    let path = report.scratch("request.bin");
    std::fs::write(&path, size.frame())?;
    Ok(path)
}

/// h2load would count an answer with a bad grpc-status as a good one.
fn check(url: &str, request: &Path) -> anyhow::Result<()> {
    let mut command = ours::program("bare-tonic");
    shell::output(command.args(["call", url]).arg(request)).map(drop)
}

fn verdict(table: &Table) -> String {
    let bar = format!("The bar is {BAR} times Jina's requests per second.");
    let rows = SIZES[..2].iter().map(|size| size.name);
    ratios(table, rows, &bar, |flow, jina| {
        format!("{:.1} times Jina", flow / jina)
    })
}

fn latency_verdict(table: &Table) -> String {
    let bar = format!("At {RATE} requests per second. The bar is {LATENCY_BAR} of Jina's time.");
    let rows = SIZES[..2].iter().map(|size| size.name);
    ratios(table, rows, &bar, |flow, jina| {
        format!("{:.2} of Jina's time", flow / jina)
    })
}

fn post_verdict(table: &Table) -> String {
    let bar = format!("10,000 small documents. The bar is {POST_BAR} times as fast as Jina.");
    ratios(table, table.rows(), &bar, |flow, jina| {
        format!("{:.1} times as fast as Jina", jina / flow)
    })
}

/// The bar, and how the systems compare in each row; nothing with one system alone.
fn ratios<'r>(
    table: &Table,
    rows: impl Iterator<Item = &'r str>,
    bar: &str,
    compare: impl Fn(f64, f64) -> String,
) -> String {
    let lines = rows.filter_map(|row| {
        let of = |system| Some(median(table.values(row, system)?));
        Some(format!("- {row}: {}\n", compare(of(FLOW)?, of(JINA)?)))
    });
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => format!("{bar}\n\n{lines}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_compared_if_both_were_measured() {
        let mut posts = Table::new([FLOW, JINA], "seconds");
        posts.add("a list", FLOW, 0.1);
        assert_eq!(post_verdict(&posts), "");
        posts.add("a list", JINA, 1.5);
        let expected = "10,000 small documents. The bar is 10 times as fast as Jina.\n\n\
                        - a list: 15.0 times as fast as Jina\n";
        assert_eq!(post_verdict(&posts), expected);
    }
}
