//! Benchmark: the encoder of the Python package beside the same engine without Python, and whether its process grows.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::bench::encoder::{flow, rate, texts};
use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::statistics::median;
use crate::{setup, shell};

const ENGINE: &str = "engine";
const PYTHON: &str = "from Python";

const CORPORA: [&str; 2] = ["tutorial", "mixed"];
const PRECISIONS: [&str; 3] = ["f32", "bf16", "int8"];

/// What the rate from Python may lack, as a share of the engine's.
const BAR: f64 = 0.02;

/// How often all texts are encoded in a round, by either. The median counts, so that neither is measured before its processor's
/// caches and its memory are warm.
const PASSES: usize = 3;

/// Texts that are encoded to see whether the process grows.
const MANY: usize = 200_000;

/// The script that encodes from Python.
const SCRIPT: &str = "tests/load/encode_python.py";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    if !bench.has(System::Flow) {
        return Ok(());
    }
    let python = setup::install_release_package()?;
    let mut table = Table::new([ENGINE, PYTHON], "texts/s");
    for corpus in CORPORA {
        let texts = texts(report, corpus)?;
        for precision in PRECISIONS {
            let row = format!("{corpus}, {precision}");
            for round in 0..bench.rounds {
                let engine = || rate(&flow(&texts, PASSES, &["--precision", precision])?);
                let from_python = || run(&python, "rate", (&texts, precision), PASSES);
                // Neither is always the first: the machine's speed changes within a round, too.
                let (engine, from_python) = match round % 2 {
                    0 => (engine()?, from_python()?),
                    _ => {
                        let from_python = from_python()?;
                        (engine()?, from_python)
                    }
                };
                eprintln!("{row} · round {round}: {engine:.0} and {from_python:.0} texts/s");
                table.add(&row, ENGINE, engine);
                table.add(&row, PYTHON, from_python);
            }
        }
    }
    let grown = run(
        &python,
        "growth",
        (&texts(report, CORPORA[0])?, "int8"),
        MANY,
    )?;
    report.write("python-encoder", &table, &verdict(&table, grown))
}

/// The number that the script prints last.
fn run(
    python: &Path,
    what: &str,
    (texts, precision): (&Path, &str),
    number: usize,
) -> anyhow::Result<f64> {
    let model: PathBuf = setup::folder().join("model");
    let mut command = Command::new(python);
    command
        .arg(ours::root(SCRIPT))
        .arg(what)
        .arg(model)
        .arg(texts);
    command.args([precision, &number.to_string()]);
    let output = shell::output(&mut command)?;
    let last = output.lines().next_back().context("it printed nothing")?;
    last.parse()
        .with_context(|| format!("`{last}` is no number"))
}

fn verdict(table: &Table, grown: f64) -> String {
    let rows = table.rows().filter_map(|row| {
        let rounds = table.values(row, PYTHON)?.iter();
        let ratios = rounds.zip(table.values(row, ENGINE)?);
        let ratios: Vec<f64> = ratios.map(|(python, engine)| python / engine).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        Some(format!(
            "- {row}: {:+.1} % ({:+.1} to {:+.1} %)\n",
            percent(median(&ratios)),
            percent(least),
            percent(most)
        ))
    });
    let rows: String = rows.collect();
    format!(
        "Rates from Python against those of the engine: the median of the rounds, and the least and the most. The bar: at most {:.0} % less.\n\n{rows}\n\
         While it encoded {MANY} texts, after the first 10,000, the process grew by {grown:.1} MB.",
        100.0 * BAR
    )
}
