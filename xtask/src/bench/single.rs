//! How long one short text takes: in the engine, through `flow up` and gRPC, and with the encoder in the process of the gateway.
//!
//! One request at a time, so that nothing waits for anything else. The difference to the engine is what serving adds. Beside it is
//! what a flow takes whose executor does nothing: the hops alone, by processes whose code and data no model pushes out of
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

/// The precisions, with the milliseconds that a text may take, if there is a bar.
const PRECISIONS: [(&str, Option<f64>); 3] = [("f32", None), ("bf16", Some(0.6)), ("int8", None)];

const NOTHING: &str = "nothing to compute, p50";
const ENGINE: &str = "engine";
const FLOW: &str = "flow up";
const COLOCATED: &str = "colocated";

/// Milliseconds that serving may add.
const ADDED_MAX: f64 = 0.15;
/// The same if the encoder is colocated.
const COLOCATED_ADDED_MAX: f64 = 0.08;

/// A flow that is measured.
struct Measured {
    row: String,
    column: String,
    flow: ours::Flow,
}

fn row(precision: &str) -> String {
    format!("one text of 14 tokens, {precision}, p50")
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let request = report.scratch("request.bin");
    std::fs::write(&request, SIZES[0].frame())?;
    let log = report.scratch("times.tsv");
    let time = |flow: &ours::Flow| {
        let url = format!("http://127.0.0.1:{}", flow.port);
        let times = h2load::times(&url, &request, REQUESTS, &log)?;
        anyhow::Ok(median(&times))
    };
    let versions = bench.versions();
    let columns = [ENGINE, FLOW, COLOCATED];
    let names = columns
        .iter()
        .flat_map(|column| versions.iter().map(|it| it.name(column)));
    let names: Vec<String> = names.collect();
    let mut table = Table::new(names.iter().map(String::as_str), "milliseconds");
    let rows = PRECISIONS
        .map(|(precision, _)| Some(precision))
        .into_iter()
        .chain([None]);
    for precision in rows {
        // The processes of one row at a time: others would wait in the caches.
        let mut measured = Vec::new();
        for version in &versions {
            for column in [FLOW, COLOCATED] {
                let file = report.scratch("flow.yml");
                std::fs::write(&file, flow(precision, column == COLOCATED))?;
                measured.push(Measured {
                    row: precision.map_or(NOTHING.to_owned(), row),
                    column: version.name(column),
                    flow: version.up(&file.to_string_lossy())?,
                });
            }
        }
        for it in &measured {
            time(&it.flow).with_context(|| format!("{} does not answer", it.column))?;
        }
        for _ in 0..bench.rounds {
            for version in versions.iter().filter(|_| precision.is_some()) {
                let precision = precision.unwrap_or_default();
                let took = engine(version.program(), precision)?;
                table.add(&row(precision), &version.name(ENGINE), took);
            }
            for it in &measured {
                table.add(&it.row, &it.column, time(&it.flow)?);
            }
        }
        eprintln!("single · {} done", precision.unwrap_or(NOTHING));
    }
    report.write("single", &table, &verdict(&table))
}

/// A flow with an encoder of this precision, or with an executor that does nothing.
fn flow(precision: Option<&str>, is_colocated: bool) -> String {
    let (uses, with) = match precision {
        Some(precision) => {
            let model = setup::folder().join("model");
            let model = model.display();
            let with = format!("{{device: cpu, model: {model}, precision: {precision}}}");
            ("sentence-encoder", with)
        }
        None => ("echo", "{}".to_owned()),
    };
    format!(
        "jtype: Flow\nexecutors:\n- {{name: a, uses: {uses}, uses_with: {with}, colocate: {is_colocated}}}\n"
    )
}

fn engine(mut command: Command, precision: &str) -> anyhow::Result<f64> {
    command.args(["bench", "encoder", "--corpus", "tutorial", "--texts", "200"]);
    command.args(["--rounds", "1", "--precision", precision, "--model"]);
    let output = shell::output(command.arg(setup::folder().join("model")))?;
    let last = output.lines().next_back().context("it wrote nothing")?;
    let line: Value = serde_json::from_str(last)?;
    line["p50_ms"].as_f64().context("no `p50_ms`")
}

fn verdict(table: &Table) -> String {
    let mut lines = String::new();
    for (precision, bar) in PRECISIONS {
        let row = row(precision);
        let time = |system| table.values(&row, system).map(median);
        let (Some(engine), Some(flow), Some(colocated)) =
            (time(ENGINE), time(FLOW), time(COLOCATED))
        else {
            continue;
        };
        let bar = bar
            .map(|it| format!(" (the bar: {it})"))
            .unwrap_or_default();
        lines += &format!(
            "{precision}: the engine takes {engine:.3} ms; `flow up` takes {flow:.3} ms{bar} and adds {:+.3} ms (the bar: \
             {ADDED_MAX}); colocated it takes {colocated:.3} ms and adds {:+.3} ms (the bar: {COLOCATED_ADDED_MAX}).\n",
            flow - engine,
            colocated - engine
        );
    }
    let rows = PRECISIONS.map(|(precision, _)| row(precision));
    let rows: Vec<&str> = rows.iter().map(String::as_str).chain([NOTHING]).collect();
    lines + &comparison(table, &rows, &[ENGINE, FLOW, COLOCATED])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_states_what_serving_adds() {
        let mut table = Table::new([ENGINE, FLOW, COLOCATED], "milliseconds");
        table.add(&row("bf16"), ENGINE, 0.5);
        table.add(&row("bf16"), FLOW, 0.75);
        table.add(&row("bf16"), COLOCATED, 0.5625);
        let verdict = verdict(&table);
        assert!(
            verdict.contains("engine takes 0.500 ms; `flow up` takes 0.750 ms (the bar: 0.6)")
                && verdict.contains("adds +0.250 ms (the bar: 0.15)")
                && verdict.contains("adds +0.062 ms (the bar: 0.08)"),
            "{verdict}"
        );
    }

    #[test]
    fn a_flow_is_colocated_or_not() {
        let check = |is_colocated: bool| {
            let text = flow(None, is_colocated);
            assert!(
                text.contains(&format!("colocate: {is_colocated}")),
                "{text}"
            );
        };
        check(true);
        check(false);
    }
}
