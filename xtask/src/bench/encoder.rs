//! The encoder beside those that users have today: sentence-transformers and ONNX Runtime, on the same
//! texts in the same run.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::bench::statistics::median;
use crate::{setup, shell};

const CORPORA: [&str; 3] = ["tutorial", "mixed", "long"];

/// Texts of each corpus that are encoded; the last has fewer.
const TEXTS: usize = 2048;

const FLOW_F32: &str = "flow f32";
const FLOW_ONE: &str = "flow f32, one thread";
const FLOW_BF16: &str = "flow bf16";
const FLOW_INT8: &str = "flow int8";
const ST_F32: &str = "sentence-transformers fp32";
const ST_BF16: &str = "sentence-transformers bf16";
const ONNX_F32: &str = "ONNX Runtime fp32";

/// The options of each of ours.
const OURS: [(&str, &[&str]); 4] = [
    (FLOW_F32, &["--precision", "f32"]),
    (FLOW_ONE, &["--precision", "f32", "--threads", "1"]),
    (FLOW_BF16, &["--precision", "bf16"]),
    (FLOW_INT8, &["--precision", "int8"]),
];

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let python = setup::interpreter("torch");
    if python.is_none() {
        eprintln!(
            "encoder · no peers: `cargo xtask setup --only model --only torch` installs them"
        );
    }
    let systems = [
        FLOW_F32, FLOW_ONE, FLOW_BF16, FLOW_INT8, ST_F32, ST_BF16, ONNX_F32,
    ];
    let mut table = Table::new(systems, "texts/s");
    let mut lines = String::new();
    for corpus in CORPORA {
        let texts = report.scratch(&format!("{corpus}.jsonl"));
        write_texts(corpus, &texts)?;
        for round in 0..bench.rounds {
            if bench.has(System::Flow) {
                for (name, options) in OURS {
                    let line = flow(&texts, options)?;
                    table.add(corpus, name, rate(&line)?);
                    lines += &format!("{corpus} · {name} · round {round}: {line}\n");
                }
            }
            if let Some(python) = &python {
                for (peer, line) in peers(python, &texts)? {
                    table.add(corpus, &peer, rate(&line)?);
                    lines += &format!("{corpus} · {peer} · round {round}: {line}\n");
                }
            }
            eprintln!("encoder · {corpus} · round {round} done");
        }
    }
    std::fs::write(report.folder().join("encoder.txt"), lines)?;
    report.write("encoder", &table, &verdict(&table))
}

fn write_texts(corpus: &str, path: &Path) -> anyhow::Result<()> {
    let texts = shell::output(ours::program("flow").args(["bench", "corpus", corpus]))?;
    let some: Vec<&str> = texts.lines().take(TEXTS).collect();
    Ok(std::fs::write(path, some.join("\n") + "\n")?)
}

fn flow(texts: &Path, options: &[&str]) -> anyhow::Result<Value> {
    let mut command = ours::program("flow");
    command
        .args(["bench", "encoder", "--rounds", "1", "--compare", "16"])
        .args(options);
    command.arg("--model").arg(setup::folder().join("model"));
    let output = shell::output(command.arg("--input").arg(texts))?;
    let last = output.lines().next_back().context("it wrote nothing")?;
    Ok(serde_json::from_str(last)?)
}

/// A name and a line of JSON for each peer.
fn peers(python: &Path, texts: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let mut command = Command::new(python);
    command.arg(ours::root("tests/load/encode_peers.py"));
    let output = shell::output(command.arg(setup::folder()).arg(texts))?;
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line)?;
        let peer = line["peer"].as_str().context("a peer without a name")?;
        Ok((peer.to_owned(), line))
    };
    lines.map(line).collect()
}

fn rate(line: &Value) -> anyhow::Result<f64> {
    line["texts_per_s"].as_f64().context("no `texts_per_s`")
}

fn verdict(table: &Table) -> String {
    let of = |corpus, system| table.values(corpus, system).map(median);
    let mut text = String::new();
    for corpus in CORPORA {
        let best = [ST_F32, ONNX_F32].iter().filter_map(|it| of(corpus, it));
        let best = best.fold(f64::NAN, f64::max);
        if let Some(ours) = of(corpus, FLOW_F32).filter(|_| best.is_finite()) {
            let ratio = ours / best;
            text +=
                &format!("{corpus}: fp32 is {ratio:.2} × the best fp32 peer (the bar: 1.25).\n");
        }
        if let Some((all, one)) = of(corpus, FLOW_F32).zip(of(corpus, FLOW_ONE)) {
            let ratio = all / one;
            text += &format!("{corpus}: all cores are {ratio:.2} × one (the bar on two: 1.85).\n");
        }
        if let Some((int8, bf16)) = of(corpus, FLOW_INT8).zip(of(corpus, FLOW_BF16)) {
            let ratio = int8 / bf16;
            text += &format!("{corpus}: int8 is {ratio:.2} × our bf16.\n");
        }
        if let Some((ours, theirs)) = of(corpus, FLOW_BF16).zip(of(corpus, ST_BF16)) {
            let ratio = ours / theirs;
            text += &format!("{corpus}: bf16 is {ratio:.2} × sentence-transformers' bf16.\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_states_the_speedup_of_all_cores() {
        let mut table = Table::new([FLOW_F32, FLOW_ONE], "texts/s");
        table.add("long", FLOW_F32, 57.0);
        table.add("long", FLOW_ONE, 30.0);
        let verdict = verdict(&table);
        assert_eq!(
            verdict,
            "long: all cores are 1.90 × one (the bar on two: 1.85).\n"
        );
    }

    #[test]
    fn the_verdict_compares_with_the_best_peer_of_the_same_precision() {
        let mut table = Table::new([FLOW_F32, ST_F32, ONNX_F32], "texts/s");
        table.add("long", FLOW_F32, 50.0);
        table.add("long", ST_F32, 37.0);
        table.add("long", ONNX_F32, 40.0);
        assert_eq!(
            verdict(&table),
            "long: fp32 is 1.25 × the best fp32 peer (the bar: 1.25).\n"
        );
    }
}
