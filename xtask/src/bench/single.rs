//! How long one short text takes: in the engine, through `flow up` and gRPC, and with the encoder in the process of the gateway.
//!
//! Requests are sent one at a time, so none of them waits in a queue. Serving adds the difference to the engine's time. A flow whose
//! executor does nothing, and a bare echo, show the cost of the connections alone.

use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::bench::gateway::bare_tonic;
use crate::bench::participants::{Bench, Version, comparison};
use crate::bench::process::Server;
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
const ECHO: &str = "bare tonic echo";

/// Milliseconds that serving may add.
const ADDED_MAX: f64 = 0.15;
/// The same if the encoder is colocated.
const COLOCATED_ADDED_MAX: f64 = 0.08;

/// A server that is measured.
struct Measured {
    column: String,
    url: String,
    _server: Server,
}

/// The row of a precision, or of servers that compute nothing.
fn row(precision: Option<&str>) -> String {
    precision.map_or(NOTHING.to_owned(), |precision| {
        format!("one text of 14 tokens, {precision}, p50")
    })
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let request = report.scratch("request.bin");
    std::fs::write(&request, SIZES[0].frame())?;
    let log = report.scratch("times.tsv");
    let time = |it: &Measured| {
        let times = h2load::times(&it.url, &request, REQUESTS, &log)?;
        anyhow::Ok(median(&times))
    };
    let versions = bench.versions();
    let names = |column: &'static str| versions.iter().map(move |it| it.name(column));
    let names = [ENGINE, FLOW, COLOCATED].into_iter().flat_map(names);
    let names: Vec<String> = names.chain([ECHO.to_owned()]).collect();
    let mut table = Table::new(names.iter().map(String::as_str), "milliseconds");
    let rows = PRECISIONS.map(|(precision, _)| Some(precision));
    for precision in rows.into_iter().chain([None]) {
        let row = row(precision);
        // The processes of one row at a time: others would take room in the caches.
        let measured = start(&versions, precision, report)?;
        for it in &measured {
            time(it).with_context(|| format!("{} does not answer", it.column))?;
        }
        for _ in 0..bench.rounds {
            if let Some(precision) = precision {
                for version in &versions {
                    let took = engine(version.program(), precision)?;
                    table.add(&row, &version.name(ENGINE), took);
                }
            }
            for it in &measured {
                table.add(&row, &it.column, time(it)?);
            }
        }
        eprintln!("single · {row} done");
    }
    report.write("single", &table, &verdict(&table))
}

/// The servers of a row, ready.
fn start(
    versions: &[Version],
    precision: Option<&str>,
    report: &Report,
) -> anyhow::Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for version in versions {
        // Earlier versions do not know colocation.
        let columns = if *version == Version::New {
            &[FLOW, COLOCATED][..]
        } else {
            &[FLOW]
        };
        for column in columns {
            let file = report.scratch("flow.yml");
            std::fs::write(&file, ours::flow_file(precision, *column == COLOCATED))?;
            let flow = version.up(&file.to_string_lossy())?;
            measured.push(Measured {
                column: version.name(column),
                url: format!("http://127.0.0.1:{}", flow.port),
                _server: flow.server,
            });
        }
    }
    if precision.is_none() {
        let (server, url) = bare_tonic(&["echo"])?;
        measured.push(Measured {
            column: ECHO.to_owned(),
            url,
            _server: server,
        });
    }
    Ok(measured)
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
        let row = row(Some(precision));
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
    let rows = PRECISIONS.map(|(precision, _)| row(Some(precision)));
    let rows: Vec<&str> = rows.iter().map(String::as_str).chain([NOTHING]).collect();
    lines + &comparison(table, &rows, &[ENGINE, FLOW, COLOCATED])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_states_what_serving_adds() {
        let mut table = Table::new([ENGINE, FLOW, COLOCATED], "milliseconds");
        table.add(&row(Some("bf16")), ENGINE, 0.5);
        table.add(&row(Some("bf16")), FLOW, 0.75);
        table.add(&row(Some("bf16")), COLOCATED, 0.5625);
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
            let text = ours::flow_file(None, is_colocated);
            assert_eq!(text.contains("colocate: true"), is_colocated, "{text}");
        };
        check(true);
        check(false);
    }
}
