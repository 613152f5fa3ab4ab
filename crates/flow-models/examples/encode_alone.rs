//! Measures the seconds that the encoder takes for a file of documents, without a flow around it.
//!
//! ```text
//! cargo run --release -p flow-models --example encode_alone -- docs.jsonl
//! ```
//!
//! It encodes 32 documents at a time, as the tutorial's requests do. Loading and a warm-up are not measured. The last line of
//! the output is the number of seconds.

#![allow(clippy::print_stdout, reason = "the figure is its output")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Instant;

use flow_models::source::{self, DEFAULT_MODEL, SourceEnvironment};
use flow_models::{DeviceSpec, EncoderOptions, TextEncoder};
use serde_json::Value;

/// Documents of one call.
const REQUEST_SIZE: usize = 32;

fn main() {
    let file = std::env::args()
        .nth(1)
        .expect("the file of documents is the argument");
    let texts = read(&file);
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    let environment = SourceEnvironment::from_variables(|name| variables.get(name).cloned());
    let folder = source::pull(DEFAULT_MODEL, None, &environment, &mut ()).expect("a model");
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let devices = DeviceSpec::Cpu
        .open(cores)
        .expect("the CPU is always available");
    let encoder =
        TextEncoder::load(&folder, &EncoderOptions::default(), devices).expect("a complete model");

    let encode = |texts: &[String]| drop(encoder.encode(texts, None).expect("fixed input"));
    encode(&texts[..texts.len().min(256)]);
    let started = Instant::now();
    texts.chunks(REQUEST_SIZE).for_each(encode);
    println!("{:.3}", started.elapsed().as_secs_f64());
}

fn read(file: &str) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a file of documents");
    let document = |line: &str| serde_json::from_str::<Value>(line).expect("JSON lines");
    let texts = text
        .lines()
        .map(|line| document(line)["text"].as_str().map(str::to_owned));
    texts
        .map(|text| text.expect("each document has a text"))
        .collect()
}
