//! The tutorial, end to end: 10,000 documents from `flow post` through the encoder and back.
//!
//! Beside it runs the encoder alone on the same documents in the same batches: the difference is
//! what serving costs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::bench::{corpus, ours};
use crate::shell;
use crate::statistics::median;

const DOCS: usize = 10_000;

/// Documents sent before the clock starts.
const WARM_UP_DOCS: usize = 320;

/// Serving may cost this share of the encoder's own time.
const BAR: f64 = 0.10;

const ROW: &str = "10,000 documents, request_size 32";
const FLOW: &str = "flow";
const FLOW_INT8: &str = "flow, precision: int8";
const ALONE: &str = "encoder alone";
const JINA: &str = "Jina 3.27, sentence-transformers fp32";

/// `precision: int8` takes Jina's time divided by this, and encodes this many documents a second.
const INT8_TIMES_JINA: f64 = 8.0;
const INT8_RATE: f64 = 3_344.0;

/// Prints the seconds that a file of documents takes without a flow around the encoder.
const ALONE_EXAMPLE: &str = "encode_alone";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let docs = report.scratch("docs.jsonl");
    corpus::write_tutorial(&docs, DOCS)?;
    let mut table = Table::new([FLOW, FLOW_INT8, ALONE, JINA], "seconds");
    let flows = if bench.has(System::Flow) {
        let int8 = report.scratch("int8.yml");
        std::fs::write(&int8, INT8_FLOW)?;
        vec![
            (FLOW, warm_flow("flows/encode.yml", report)?),
            (FLOW_INT8, warm_flow(&int8.display().to_string(), report)?),
        ]
    } else {
        Vec::new()
    };
    let jina = bench.jina_with_encoder()?;
    for round in 0..bench.rounds {
        for (name, flow) in &flows {
            let seconds = post(flow, &docs, report)?;
            eprintln!("tutorial · {name} · round {round}: {seconds:.2} s");
            table.add(ROW, name, seconds);
        }
        if bench.has(System::Bare) {
            table.add(ROW, ALONE, encoder_alone(&docs)?);
        }
        if let Some(python) = &jina {
            table.add(ROW, JINA, jina_tutorial(python)?);
        }
    }
    report.write("tutorial", &table, &verdict(&table))
}

/// `flows/encode.yml` with 8-bit integers.
const INT8_FLOW: &str = "\
jtype: Flow
executors:
  - name: encoder
    uses: sentence-encoder
    uses_with: {precision: int8}
";

fn warm_flow(file: &str, report: &Report) -> anyhow::Result<ours::Flow> {
    let flow = ours::up(file)?;
    let docs = report.scratch("warm-up.jsonl");
    corpus::write_tutorial(&docs, WARM_UP_DOCS)?;
    post(&flow, &docs, report)?;
    Ok(flow)
}

/// Seconds from the start of `flow post` to its end.
fn post(flow: &ours::Flow, docs: &Path, report: &Report) -> anyhow::Result<f64> {
    let mut command = ours::post(flow, docs, &report.scratch("out.jsonl"));
    let started = Instant::now();
    shell::output(&mut command)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Seconds of the encoder without a flow.
fn encoder_alone(docs: &Path) -> anyhow::Result<f64> {
    let mut command = shell::cargo();
    command.args(["run", "--quiet", "--release", "--package", "flow-models"]);
    command.args(["--example", ALONE_EXAMPLE, "--"]).arg(docs);
    seconds(&shell::output(&mut command)?)
}

fn jina_tutorial(python: &Path) -> anyhow::Result<f64> {
    let mut command = Command::new(python);
    command
        .arg(ours::root("tests/load/jina_tutorial.py"))
        .arg(crate::setup::folder().join("model"));
    seconds(&shell::output(&mut command)?)
}

/// The number in the last line that a program wrote.
pub(super) fn seconds(output: &str) -> anyhow::Result<f64> {
    let last = output
        .trim_end()
        .lines()
        .next_back()
        .context("it wrote nothing")?;
    last.trim()
        .parse()
        .with_context(|| format!("`{last}` is not a number of seconds"))
}

fn verdict(table: &Table) -> String {
    let time = |system| table.values(ROW, system).map(median);
    let mut verdict = String::new();
    if let Some((flow, alone)) = time(FLOW).zip(time(ALONE)) {
        let more = (flow / alone - 1.0) * 100.0;
        let bar = BAR * 100.0;
        verdict += &format!(
            "The bar: at most {bar:.0} % over the encoder alone; flow takes {more:+.1} %.\n"
        );
    }
    if let Some((int8, jina)) = time(FLOW_INT8).zip(time(JINA)) {
        let (times, rate) = (jina / int8, DOCS as f64 / int8);
        verdict += &format!(
            "The bars of `precision: int8`: {INT8_TIMES_JINA} times Jina and {INT8_RATE} documents/s; \
             it is {times:.2} times Jina, with {rate:.0} documents/s.\n"
        );
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_are_in_the_last_line() {
        assert_eq!(seconds("loading\n12.5\n").expect("a number"), 12.5);
        assert!(seconds("").is_err());
        assert!(seconds("12.5 s").is_err());
    }

    #[test]
    fn the_verdict_compares_medians() {
        let mut table = Table::new([FLOW, ALONE], "seconds");
        for (flow, alone) in [(10.8, 10.0), (99.0, 10.0), (10.5, 10.0)] {
            table.add(ROW, FLOW, flow);
            table.add(ROW, ALONE, alone);
        }
        assert!(
            verdict(&table).contains("flow takes +8.0 %"),
            "{}",
            verdict(&table)
        );
        table.add(ROW, FLOW_INT8, 2.5);
        table.add(ROW, JINA, 20.0);
        let verdict_of_both = verdict(&table);
        let expected = "it is 8.00 times Jina, with 4000 documents/s";
        assert!(verdict_of_both.contains(expected), "{verdict_of_both}");
        assert_eq!(verdict(&Table::new([FLOW], "seconds")), "");
    }
}
