//! Measures the encoder alone: texts per second, and the memory of the process.
//!
//! ```text
//! cargo bench -p flow-models -- [FILE.jsonl …]
//! ```
//!
//! Each file has one `{"text": …}` per line. Without a file, the tutorial's sentence of 14 tokens is encoded 2,048 times. The
//! output is one JSON line per file. Loading and a warm-up are not measured, and the figure is the median of three runs.

#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Instant;

use flow_models::source::{self, DEFAULT_MODEL, SourceEnvironment};
use flow_models::{DeviceSpec, EncoderOptions, TextEncoder};
use serde_json::{Value, json};

const SENTENCE: &str = "Using a GPU allows you to significantly speed up encoding.";
const TUTORIAL_TEXTS: usize = 2048;
const RUNS: usize = 3;

fn main() {
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    let environment = SourceEnvironment::from_variables(|name| variables.get(name).cloned());
    let folder = source::pull(DEFAULT_MODEL, None, &environment, &mut ()).expect("a model");
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let devices = DeviceSpec::Cpu
        .open(cores)
        .expect("the CPU is always available");

    let started = Instant::now();
    let encoder =
        TextEncoder::load(&folder, &EncoderOptions::default(), devices).expect("a complete model");
    let (load_ms, loaded_mb) = (started.elapsed().as_millis(), resident_mb());
    println!("{}", json!({"load_ms": load_ms, "resident_mb": loaded_mb}));

    let files: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    if files.is_empty() {
        report(
            &encoder,
            "tutorial",
            &vec![SENTENCE.to_owned(); TUTORIAL_TEXTS],
        );
    }
    for file in files {
        report(&encoder, &file, &read(&file));
    }
}

fn report(encoder: &TextEncoder, corpus: &str, texts: &[String]) {
    let encode = |texts: &[String]| encoder.encode(texts, None).expect("fixed input");
    encode(&texts[..texts.len().min(256)]);
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            encode(texts);
            texts.len() as f64 / started.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let texts_per_s = rates[RUNS / 2].round();
    let line = json!({"corpus": corpus, "texts_per_s": texts_per_s, "resident_mb": resident_mb()});
    println!("{line}");
}

fn read(file: &str) -> Vec<String> {
    let content = fs::read_to_string(file).expect("a file of JSON lines");
    let text = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        line["text"].as_str().expect("a text").to_owned()
    };
    content.lines().map(text).collect()
}

fn resident_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kb| kb.parse().ok());
    kb.unwrap_or(0) / 1024
}
