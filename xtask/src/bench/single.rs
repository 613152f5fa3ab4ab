//! How long one short text takes: in the engine, and through `flow up` and gRPC.
//!
//! One request at a time, so that nothing waits for anything else. The difference is what serving adds. Beside it is what
//! a flow takes whose executor does nothing: the hops alone, by processes whose code and data no model pushes out of
//! the caches.

use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::bench::participants::{Bench, comparison};
use crate::bench::report::{Report, Table};
use crate::bench::request::SIZES;
use crate::bench::{h2load, ours};
use crate::statistics::median;
use crate::{setup, shell};

/// Requests of a round.
const REQUESTS: usize = 500;

const ROW: &str = "one text of 14 tokens, f32, p50";
const ENGINE: &str = "engine";
const FLOW: &str = "flow up";
const NOTHING: &str = "flow up, nothing to compute";

/// Milliseconds of the engine.
const ENGINE_MAX: f64 = 4.0;
/// Milliseconds that serving may add.
const ADDED_MAX: f64 = 0.4;

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let request = report.scratch("request.bin");
    std::fs::write(&request, SIZES[0].frame())?;
    let versions = bench.versions();
    let mut flows = Vec::new();
    for version in &versions {
        flows.push((version.name(FLOW), version.up("flows/encode.yml")?));
        flows.push((version.name(NOTHING), version.up("flows/echo.yml")?));
    }
    let log = report.scratch("times.tsv");
    let time = |flow: &ours::Flow| {
        let url = format!("http://127.0.0.1:{}", flow.port);
        let times = h2load::times(&url, &request, REQUESTS, &log)?;
        anyhow::Ok(median(&times))
    };
    for (name, flow) in &flows {
        time(flow).with_context(|| format!("{name} does not answer"))?;
    }
    let engines = versions.iter().map(|version| version.name(ENGINE));
    let columns: Vec<String> = engines.chain(flows.iter().map(|it| it.0.clone())).collect();
    let mut table = Table::new(columns.iter().map(String::as_str), "milliseconds");
    for round in 0..bench.rounds {
        for version in &versions {
            table.add(ROW, &version.name(ENGINE), engine(version.program())?);
        }
        for (name, flow) in &flows {
            table.add(ROW, name, time(flow)?);
        }
        eprintln!("single · round {round} done");
    }
    report.write("single", &table, &verdict(&table))
}

fn engine(mut command: Command) -> anyhow::Result<f64> {
    command.args(["bench", "encoder", "--corpus", "tutorial", "--texts", "200"]);
    command.args(["--rounds", "1", "--model"]);
    let output = shell::output(command.arg(setup::folder().join("model")))?;
    let last = output.lines().next_back().context("it wrote nothing")?;
    let line: Value = serde_json::from_str(last)?;
    line["p50_ms"].as_f64().context("no `p50_ms`")
}

fn verdict(table: &Table) -> String {
    let time = |system| table.values(ROW, system).map(median);
    let (Some(engine), Some(flow), Some(nothing)) = (time(ENGINE), time(FLOW), time(NOTHING))
    else {
        return String::new();
    };
    let change = comparison(table, &[ROW], &[ENGINE, FLOW, NOTHING]);
    format!(
        "The engine takes {engine:.2} ms (the bar: {ENGINE_MAX}); serving adds {:+.2} ms (the bar: {ADDED_MAX}); a flow \
         that has nothing to compute takes {nothing:.2} ms.\n{change}",
        flow - engine
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_states_what_serving_adds() {
        let mut table = Table::new([ENGINE, FLOW, NOTHING], "milliseconds");
        table.add(ROW, ENGINE, 3.0);
        table.add(ROW, FLOW, 3.25);
        table.add(ROW, NOTHING, 0.125);
        let verdict = verdict(&table);
        assert!(
            verdict.contains("takes 3.00 ms")
                && verdict.contains("adds +0.25 ms")
                && verdict.contains("compute takes 0.12 ms"),
            "{verdict}"
        );
    }
}
