//! How long one short text takes: in the engine, and through `flow up` and gRPC.
//!
//! One request at a time, so that nothing waits for anything else. The difference is what serving adds.

use anyhow::Context;
use serde_json::Value;

use crate::bench::report::{Report, Table};
use crate::bench::request::SIZES;
use crate::bench::{Bench, h2load, median, ours};
use crate::{setup, shell};

/// Requests of a round.
const REQUESTS: usize = 500;

const ROW: &str = "one text of 14 tokens, f32, p50";
const ENGINE: &str = "engine";
const FLOW: &str = "flow up";

/// Milliseconds of the engine.
const ENGINE_MAX: f64 = 4.0;
/// Milliseconds that serving may add.
const ADDED_MAX: f64 = 0.4;

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let request = report.scratch("request.bin");
    std::fs::write(&request, SIZES[0].frame())?;
    let flow = ours::up("flows/encode.yml")?;
    let url = format!("http://127.0.0.1:{}", flow.port);
    let log = report.scratch("times.tsv");
    h2load::times(&url, &request, REQUESTS, &log).context("the flow does not answer")?;
    let mut table = Table::new([ENGINE, FLOW], "milliseconds");
    for round in 0..bench.rounds {
        table.add(ROW, ENGINE, engine()?);
        let times = h2load::times(&url, &request, REQUESTS, &log)?;
        table.add(ROW, FLOW, median(&times));
        eprintln!("single · round {round} done");
    }
    report.write("single", &table, &verdict(&table))
}

fn engine() -> anyhow::Result<f64> {
    let mut command = ours::program("flow");
    command.args(["bench", "encoder", "--corpus", "tutorial", "--texts", "200"]);
    command.args(["--rounds", "1", "--model"]);
    let output = shell::output(command.arg(setup::folder().join("model")))?;
    let last = output.lines().next_back().context("it wrote nothing")?;
    let line: Value = serde_json::from_str(last)?;
    line["p50_ms"].as_f64().context("no `p50_ms`")
}

fn verdict(table: &Table) -> String {
    let time = |system| table.values(ROW, system).map(median);
    let Some((engine, flow)) = time(ENGINE).zip(time(FLOW)) else {
        return String::new();
    };
    format!(
        "The engine takes {engine:.2} ms (the bar: {ENGINE_MAX}); serving adds {:+.2} ms (the bar: {ADDED_MAX}).\n",
        flow - engine
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_tells_what_serving_adds() {
        let mut table = Table::new([ENGINE, FLOW], "milliseconds");
        table.add(ROW, ENGINE, 3.0);
        table.add(ROW, FLOW, 3.25);
        let verdict = verdict(&table);
        assert!(
            verdict.contains("takes 3.00 ms") && verdict.contains("adds +0.25 ms"),
            "{verdict}"
        );
    }
}
