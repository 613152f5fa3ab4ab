//! Benchmark: the encoder compared with others: sentence-transformers, ONNX Runtime and OpenVINO, on the
//! same texts in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::statistics::median;
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
const OPENVINO_F32: &str = "OpenVINO fp32";
const OPENVINO_BF16: &str = "OpenVINO bf16";
const OPENVINO_INT8: &str = "OpenVINO int8";
const OPENVINO_INT8_BF16: &str = "OpenVINO int8 and bf16";

/// The options of each of ours.
const OURS: [(&str, &[&str]); 4] = [
    (FLOW_F32, &["--precision", "f32"]),
    (FLOW_ONE, &["--precision", "f32", "--threads", "1"]),
    (FLOW_BF16, &["--precision", "bf16"]),
    (FLOW_INT8, &["--precision", "int8"]),
];

/// All systems, in the order of the table.
const SYSTEMS: [&str; 11] = [
    FLOW_F32,
    FLOW_ONE,
    FLOW_BF16,
    FLOW_INT8,
    ST_F32,
    ST_BF16,
    ONNX_F32,
    OPENVINO_F32,
    OPENVINO_BF16,
    OPENVINO_INT8,
    OPENVINO_INT8_BF16,
];

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let peers = Peers::find(report)?;
    let mut table = Table::new(SYSTEMS, "texts/s");
    let mut lines = String::new();
    for corpus in CORPORA {
        let texts = texts(report, corpus)?;
        for round in 0..bench.rounds {
            let mut measured = Vec::new();
            if bench.has(System::Flow) {
                for (name, options) in OURS {
                    measured.push((name.to_owned(), flow(&texts, 1, options)?));
                }
            }
            measured.extend(peers.measure(&texts)?);
            for (name, line) in measured {
                table.add(corpus, &name, rate(&line)?);
                lines += &format!("{corpus} · {name} · round {round}: {line}\n");
            }
            eprintln!("encoder · {corpus} · round {round} done");
        }
    }
    std::fs::write(report.folder().join("encoder.txt"), lines)?;
    report.write("encoder", &table, &verdict(&table))
}

/// The peers that are set up.
struct Peers {
    /// Python with sentence-transformers and ONNX Runtime.
    torch: Option<PathBuf>,
    /// Python with OpenVINO, and the texts that calibrate its integers.
    openvino: Option<(PathBuf, PathBuf)>,
}

impl Peers {
    fn find(report: &Report) -> anyhow::Result<Self> {
        let torch = setup::interpreter("torch");
        if torch.is_none() {
            eprintln!(
                "encoder · no peers: `cargo xtask setup --only model --only torch` installs them"
            );
        }
        // OpenVINO reads the model that torch exports.
        let openvino = torch.as_ref().and(setup::interpreter("openvino"));
        if openvino.is_none() {
            eprintln!(
                "encoder · no OpenVINO: `cargo xtask setup --only torch --only openvino` installs it"
            );
        }
        let calibration = texts(report, "mixed")?;
        let openvino = openvino.map(|python| (python, calibration));
        Ok(Self { torch, openvino })
    }

    /// A name and a line of JSON for each peer and precision.
    fn measure(&self, texts: &Path) -> anyhow::Result<Vec<(String, Value)>> {
        let mut measured = Vec::new();
        if let Some(python) = &self.torch {
            measured.extend(run(python, "encode_peers.py", &[texts])?);
        }
        if let Some((python, calibration)) = &self.openvino {
            measured.extend(run(python, "encode_openvino.py", &[calibration, texts])?);
        }
        Ok(measured)
    }
}

/// Writes the texts of a corpus, and returns where they are.
pub(super) fn texts(report: &Report, corpus: &str) -> anyhow::Result<PathBuf> {
    let path = report.scratch(&format!("{corpus}.jsonl"));
    write_texts(corpus, &path, TEXTS)?;
    Ok(path)
}

/// Writes the first texts of a corpus.
pub(super) fn write_texts(corpus: &str, path: &Path, count: usize) -> anyhow::Result<()> {
    let texts = shell::output(ours::program("flow").args(["bench", "corpus", corpus]))?;
    let some: Vec<&str> = texts.lines().take(count).collect();
    Ok(std::fs::write(path, some.join("\n") + "\n")?)
}

/// Runs the engine: encodes all texts a number of times, of which the median counts.
pub(super) fn flow(texts: &Path, passes: usize, options: &[&str]) -> anyhow::Result<Value> {
    let mut command = ours::program("flow");
    command
        .args(["bench", "encoder", "--compare", "16", "--rounds"])
        .arg(passes.to_string())
        .args(options);
    command.arg("--model").arg(setup::folder().join("model"));
    let output = shell::output(command.arg("--input").arg(texts))?;
    let last = output.lines().next_back().context("it wrote nothing")?;
    Ok(serde_json::from_str(last)?)
}

/// Runs a script that encodes texts, and reads its lines of JSON.
fn run(python: &Path, script: &str, files: &[&Path]) -> anyhow::Result<Vec<(String, Value)>> {
    let mut command = Command::new(python);
    command.arg(ours::root("tests/load").join(script));
    let output = shell::output(command.arg(setup::folder()).args(files))?;
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line)?;
        let peer = line["peer"].as_str().context("a peer without a name")?;
        Ok((peer.to_owned(), line))
    };
    lines.map(line).collect()
}

pub(super) fn rate(line: &Value) -> anyhow::Result<f64> {
    line["texts_per_s"].as_f64().context("no `texts_per_s`")
}

/// A comparison that the summary states.
struct Comparison {
    ours: &'static str,
    /// The fastest of these is the peer.
    theirs: &'static [&'static str],
    words: &'static str,
    /// What the ratio should reach, for each corpus.
    bars: Option<[f64; 3]>,
}

const COMPARISONS: &[Comparison] = &[
    Comparison {
        ours: FLOW_F32,
        theirs: &[ST_F32, ONNX_F32],
        words: "the best of sentence-transformers and ONNX Runtime in fp32",
        bars: Some([1.25; 3]),
    },
    Comparison {
        ours: FLOW_F32,
        theirs: &[OPENVINO_F32],
        words: "OpenVINO's fp32",
        bars: Some([1.25, 1.35, 1.3]),
    },
    Comparison {
        ours: FLOW_F32,
        theirs: &[FLOW_ONE],
        words: "one thread of ours",
        bars: Some([1.85; 3]),
    },
    Comparison {
        ours: FLOW_BF16,
        theirs: &[ST_BF16],
        words: "sentence-transformers' bf16",
        bars: None,
    },
    Comparison {
        ours: FLOW_BF16,
        theirs: &[OPENVINO_BF16],
        words: "OpenVINO's bf16",
        bars: Some([1.4, 1.45, 1.35]),
    },
    Comparison {
        ours: FLOW_INT8,
        theirs: &[OPENVINO_INT8, OPENVINO_INT8_BF16],
        words: "OpenVINO's best int8",
        bars: Some([1.25, 1.25, 1.2]),
    },
    Comparison {
        ours: FLOW_INT8,
        theirs: &[FLOW_BF16],
        words: "our bf16",
        bars: None,
    },
];

/// One line for each comparison of which both sides were measured.
fn verdict(table: &Table) -> String {
    let mut text = String::new();
    for (row, corpus) in CORPORA.into_iter().enumerate() {
        let of = |system| table.values(corpus, system).map(median);
        for comparison in COMPARISONS {
            let Comparison { ours, words, .. } = comparison;
            let theirs = comparison.theirs.iter().filter_map(|it| of(it));
            let best = theirs.fold(f64::NAN, f64::max);
            let Some(rate) = of(ours).filter(|_| best.is_finite()) else {
                continue;
            };
            let bar = comparison
                .bars
                .map(|bars| format!(" (the bar: {})", bars[row]));
            let bar = bar.unwrap_or_default();
            text += &format!("- {corpus}: {ours} is {:.2} × {words}{bar}\n", rate / best);
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
            "- long: flow f32 is 1.90 × one thread of ours (the bar: 1.85)\n"
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
            "- long: flow f32 is 1.25 × the best of sentence-transformers and ONNX Runtime in fp32 (the bar: 1.25)\n"
        );
    }
}
