//! Benchmark: the cost of an executor in Python: unary calls through a gateway to one that does nothing.
//!
//! The same file runs on our runtime behind our gateway, and in Jina's own flow.

use std::path::PathBuf;

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

/// Runs have fewer requests than those of executors in Rust by this factor.
const SLOWER: usize = 4;
const SLOWER_JINA: usize = 40;

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let flows = start(bench)?;
    let mut table = Table::new(flows.iter().map(|(name, ..)| *name), "requests/s");
    // Without vectors: the executor looks at none.
    for size in &SIZES[..2] {
        let request = write_request(report, size)?;
        let url = |flow: &ours::Flow| format!("http://127.0.0.1:{}", flow.port);
        for (name, _, flow) in &flows {
            check(&url(flow), &request).with_context(|| format!("{name} does not answer"))?;
        }
        for round in 0..bench.rounds {
            for (name, slower, flow) in &flows {
                let rate = h2load::run(&url(flow), &request, size.requests / slower)?;
                eprintln!(
                    "{} · {name} · round {round}: {rate:.0} requests/s",
                    size.name
                );
                table.add(size.name, name, rate);
            }
        }
    }
    report.write("python", &table, &verdict(&table))
}

fn start(bench: &Bench) -> anyhow::Result<Vec<(&'static str, usize, ours::Flow)>> {
    let mut flows = Vec::new();
    if bench.has(System::Flow) {
        let python = setup::install_release_package()?;
        flows.push((FLOW, SLOWER, ours::python_noop(&python)?));
    }
    if let Some(python) = bench.jina()? {
        flows.push((JINA, SLOWER_JINA, ours::jina_python_noop(&python)?));
    }
    Ok(flows)
}

fn write_request(report: &Report, size: &Size) -> anyhow::Result<PathBuf> {
    let path = report.scratch("request.bin");
    std::fs::write(&path, size.frame())?;
    Ok(path)
}

/// h2load would count an answer with a bad grpc-status as a good one.
fn check(url: &str, request: &std::path::Path) -> anyhow::Result<()> {
    let mut command = ours::program("bare-tonic");
    shell::output(command.args(["call", url]).arg(request)).map(drop)
}

fn verdict(table: &Table) -> String {
    let ratios = SIZES[..2].iter().filter_map(|size| {
        let rate = |system| Some(median(table.values(size.name, system)?));
        let ratio = rate(FLOW)? / rate(JINA)?;
        Some(format!("- {}: {ratio:.1} times Jina\n", size.name))
    });
    let ratios: String = ratios.collect();
    match ratios.is_empty() {
        true => ratios,
        false => format!("The bar is {BAR} times Jina's requests per second.\n\n{ratios}"),
    }
}
