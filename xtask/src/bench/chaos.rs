//! Benchmark: latency while processes are killed, replaced and scaled.
//!
//! The load and the chaos are those of `tests/it/chaos.rs`, which fails if a request is lost, fails, or is
//! answered twice; here it runs longer, and its times are looked at.

use crate::bench::ours;
use crate::bench::participants::Bench;
use crate::bench::report::{Report, Table};
use crate::shell;
use crate::statistics::quantile;

/// As the bar has it.
const SECONDS: u32 = 30;

/// Milliseconds that all but one in a hundred requests take at most.
const P99_MAX: f64 = 250.0;

const TEST: &str = "chaos::no_request_is_lost_while_processes_die_and_change";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::new(["flow"], "milliseconds");
    for round in 0..bench.rounds {
        let times = round_of(report)?;
        for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            table.add(name, "flow", quantile(&times, part));
        }
        table.add("slowest", "flow", quantile(&times, 1.0));
        eprintln!("chaos · round {round}: {} requests answered", times.len());
    }
    let p99 = table.values("p99", "flow").unwrap_or_default();
    let worst = p99.iter().copied().fold(0.0, f64::max);
    let verdict = format!(
        "200 requests a second for {SECONDS} s, 3 replicas that take 5 ms: one killed every 3 s, two restarts, \
         scaled to 5 and back. Every request was answered once, and well. The worst p99 is {worst:.0} ms; the \
         bar is {P99_MAX:.0}.\n"
    );
    report.write("chaos", &table, &verdict)?;
    anyhow::ensure!(
        worst < P99_MAX,
        "p99 is {worst:.0} ms, {P99_MAX:.0} is the bar"
    );
    Ok(())
}

/// The times of one run, the shortest first.
fn round_of(report: &Report) -> anyhow::Result<Vec<f64>> {
    let out = report.scratch("chaos.txt");
    let mut command = shell::cargo();
    command
        .args([
            "test",
            "--package",
            "flow-tests",
            "--test",
            "it",
            "--",
            "--exact",
            TEST,
        ])
        .env("FLOW_BIN", ours::program("flow").get_program())
        .env("FLOW_CHAOS_SECONDS", SECONDS.to_string())
        .env("FLOW_CHAOS_OUT", &out);
    shell::run(&mut command)?;
    let text = std::fs::read_to_string(&out)?;
    let times = text
        .lines()
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>();
    Ok(times?)
}
