//! Benchmark: how long Python takes to import the package, and an executor in Python to be ready.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::process::Server;
use crate::bench::report::{Report, Table};
use crate::statistics::median;
use crate::{setup, shell};

const FLOW: &str = "flow";
const JINA: &str = "Jina 3.27";

const IMPORT: &str = "import of the package";
const START: &str = "executor that does nothing, to ready";
const ALONE: &str = "Python that does nothing, from start to end";

/// Milliseconds that each may take.
const BARS: [(&str, f64); 2] = [(IMPORT, 60.0), (START, 150.0)];

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let flow = match bench.has(System::Flow) {
        true => Some(setup::install_release_package()?),
        false => None,
    };
    let jina = bench.jina()?;
    let mut table = Table::new([FLOW, JINA], "ms");
    // Once for the page cache.
    for round in 0..=bench.rounds {
        let mut add = |row, system, time: anyhow::Result<f64>| {
            time.map(|time| {
                if round > 0 {
                    table.add(row, system, time);
                }
            })
        };
        if let Some(python) = &flow {
            add(ALONE, FLOW, alone(python))?;
            add(IMPORT, FLOW, import(python, "flow_serve"))?;
            add(START, FLOW, start(python))?;
        }
        if let Some(python) = &jina {
            add(IMPORT, JINA, import(python, "jina"))?;
        }
    }
    report.write("python-start", &table, &verdict(&table))
}

/// Milliseconds of an import in a new interpreter.
fn import(python: &Path, package: &str) -> anyhow::Result<f64> {
    let script = format!(
        "import time; started = time.perf_counter(); import {package}; print(1e3 * (time.perf_counter() - started))"
    );
    let output = shell::output(Command::new(python).args(["-c", &script]))?;
    let last = output.lines().next_back().context("it printed nothing")?;
    last.parse()
        .with_context(|| format!("`{last}` is no number"))
}

/// Milliseconds of an interpreter that has nothing to do: a measure of the machine.
fn alone(python: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    shell::output(Command::new(python).args(["-c", "pass"]))?;
    Ok(1e3 * started.elapsed().as_secs_f64())
}

/// Milliseconds from the start of an executor's process until it is ready.
fn start(python: &Path) -> anyhow::Result<f64> {
    let mut command = ours::program("flow");
    command
        .env("FLOW_PYTHON", python)
        .env("FLOW_PYTHON_RUNTIME", "flow");
    command.args(["executor", "--uses", "tests/load/python_noop/config.yml"]);
    let server = Server::start(&mut command, "ready")?;
    Ok(1e3 * server.started_in.as_secs_f64())
}

fn verdict(table: &Table) -> String {
    let lines = BARS.iter().filter_map(|(row, bar)| {
        let time = median(table.values(row, FLOW)?);
        Some(format!("- {row}: {time:.0} ms (the bar: {bar})\n"))
    });
    let alone = table.values(ALONE, FLOW).map(|times| {
        let time = median(times);
        format!("- {ALONE}: {time:.0} ms, a measure of the machine\n")
    });
    lines.chain(alone).collect()
}
