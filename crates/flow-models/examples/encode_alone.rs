//! Seconds that a file of documents takes without a flow around the encoder.
//!
//! ```text
//! cargo run --release -p flow-models --example encode_alone -- docs.jsonl
//! ```
//!
//! 32 documents at a time, as the tutorial's requests bring them; loading and a warm-up lie outside the
//! clock. The seconds are the last line.

#![allow(clippy::print_stdout, reason = "the figure is what it is for")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Instant;

use flow_models::source::{self, DEFAULT_MODEL, Environment};
use flow_models::{Device, Encoder, EncoderOptions};
use serde_json::Value;

/// Documents in one call.
const REQUEST_SIZE: usize = 32;

fn main() {
    let file = std::env::args()
        .nth(1)
        .expect("the file of documents is the argument");
    let texts = read(&file);
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    let environment = Environment::from_variables(|name| variables.get(name).cloned());
    let folder = source::pull(DEFAULT_MODEL, None, &environment, &mut ()).expect("a model");
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let device = Device::Cpu.open(cores).expect("the CPU is always there");
    let encoder = Encoder::load(&folder, &EncoderOptions::default(), device).expect("a whole model");

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
