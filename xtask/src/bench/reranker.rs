//! Benchmark: cross-encoders compared with sentence-transformers and ONNX Runtime, on the same pairs in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::bench::encoder::write_texts;
use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::statistics::median;
use crate::{setup, shell};

const CORPORA: [&str; 2] = ["tutorial", "mixed"];

/// Texts of each corpus, and those that are queries: each is paired with every text.
const TEXTS: usize = 128;
const QUERIES: usize = 8;

const FLOW_F32: &str = "flow f32";
const FLOW_BF16: &str = "flow bf16";
const FLOW_INT8: &str = "flow int8";
const ST_F32: &str = "sentence-transformers fp32";
const ST_BF16: &str = "sentence-transformers bf16";
const ONNX_F32: &str = "ONNX Runtime fp32";

/// The precision of each of ours.
const OURS: [(&str, &str); 3] = [(FLOW_F32, "f32"), (FLOW_BF16, "bf16"), (FLOW_INT8, "int8")];

const SYSTEMS: [&str; 6] = [FLOW_F32, FLOW_BF16, FLOW_INT8, ST_F32, ST_BF16, ONNX_F32];

/// Prints the pairs per second that the engine scores.
const EXAMPLE: &str = "score_pairs";

/// Systems that are compared: ours, with the best of the others.
const COMPARISONS: [(&str, &[&str]); 3] = [
    (FLOW_F32, &[ST_F32, ONNX_F32]),
    (FLOW_BF16, &[ST_BF16]),
    (FLOW_INT8, &[ST_F32, ONNX_F32]),
];

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let Some(torch) = setup::interpreter("torch") else {
        eprintln!(
            "reranker · left out: `cargo xtask setup --only model --only torch` installs what it needs"
        );
        return Ok(());
    };
    let model = report.scratch("cross-encoder");
    let mut make = script(&torch, "rerank_model.py");
    shell::output(make.arg(setup::folder()).arg(&model))?;
    let mut table = Table::new(SYSTEMS, "pairs/s");
    let mut differences = String::new();
    for corpus in CORPORA {
        let texts = report.scratch(&format!("{corpus}-pairs.jsonl"));
        write_texts(corpus, &texts, TEXTS)?;
        let mut scores: Vec<(String, Vec<f64>)> = Vec::new();
        for round in 0..bench.rounds {
            let mut measured = peers(&torch, &model, &texts)?;
            if bench.has(System::Flow) {
                for (name, precision) in OURS {
                    measured.push((name.to_owned(), flow(&model, &texts, precision)?));
                }
            }
            for (name, line) in &measured {
                let rate = line["pairs_per_s"].as_f64().context("no `pairs_per_s`")?;
                table.add(corpus, name, rate);
            }
            scores = measured
                .iter()
                .map(|(name, line)| (name.clone(), numbers(&line["scores"])))
                .collect();
            eprintln!("reranker · {corpus} · round {round} done");
        }
        differences += &differences_of(corpus, &scores);
    }
    report.write("reranker", &table, &(verdict(&table) + &differences))
}

fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(ours::root("tests/load").join(name));
    command
}

/// A name and a line of JSON for each peer.
fn peers(python: &Path, model: &Path, texts: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let mut command = script(python, "rerank_peers.py");
    command.args([model, texts]).arg(QUERIES.to_string());
    let output = shell::output(&mut command)?;
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line)?;
        let peer = line["peer"].as_str().context("a peer without a name")?;
        Ok((peer.to_owned(), line))
    };
    lines.map(line).collect()
}

fn flow(model: &PathBuf, texts: &Path, precision: &str) -> anyhow::Result<Value> {
    let mut command = shell::cargo();
    command.args(["run", "--quiet", "--release", "--package", "flow-models"]);
    command
        .args(["--example", EXAMPLE, "--"])
        .arg(model)
        .arg(texts);
    command.args([&QUERIES.to_string(), precision]);
    let output = shell::output(&mut command)?;
    let last = output.lines().next_back().context("it wrote nothing")?;
    Ok(serde_json::from_str(last)?)
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_f64).collect()
}

/// How far our scores are from those of sentence-transformers in 32-bit floats.
fn differences_of(corpus: &str, scores: &[(String, Vec<f64>)]) -> String {
    let of = |name: &str| scores.iter().find(|(it, _)| it == name);
    let Some((_, reference)) = of(ST_F32) else {
        return String::new();
    };
    let ours = OURS.iter().filter_map(|(name, _)| of(name));
    let line = |(name, scores): &(String, Vec<f64>)| {
        let pairs = scores.iter().zip(reference);
        let largest = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        format!("- {corpus}: scores of {name} differ from {ST_F32} by {largest:.6} at most\n")
    };
    ours.map(line).collect()
}

/// One line for each comparison of which both sides were measured.
fn verdict(table: &Table) -> String {
    let mut text = String::new();
    for corpus in CORPORA {
        let of = |system| table.values(corpus, system).map(median);
        for (ours, theirs) in COMPARISONS {
            let theirs = theirs.iter().filter_map(|name| Some((of(name)?, name)));
            let best = theirs.max_by(|a, b| a.0.total_cmp(&b.0));
            if let (Some(rate), Some((best, name))) = (of(ours), best) {
                text += &format!("- {corpus}: {ours} is {:.2} × {name}\n", rate / best);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_with_the_best_peer() {
        let mut table = Table::new([FLOW_F32, ST_F32, ONNX_F32], "pairs/s");
        table.add("mixed", FLOW_F32, 50.0);
        table.add("mixed", ST_F32, 20.0);
        table.add("mixed", ONNX_F32, 25.0);
        assert_eq!(
            verdict(&table),
            "- mixed: flow f32 is 2.00 × ONNX Runtime fp32\n"
        );
    }

    #[test]
    fn the_largest_difference_of_scores_counts() {
        let scores = [
            (ST_F32.to_owned(), vec![0.5, 1.0]),
            (FLOW_INT8.to_owned(), vec![0.25, 1.125]),
        ];
        let expected = "- mixed: scores of flow int8 differ from sentence-transformers fp32 by 0.250000 at most\n";
        assert_eq!(differences_of("mixed", &scores), expected);
    }
}
