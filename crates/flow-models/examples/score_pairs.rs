//! Measures how many pairs of texts a cross-encoder scores in a second, without a flow around it.
//!
//! ```text
//! cargo run --release -p flow-models --example score_pairs -- MODEL docs.jsonl QUERIES PRECISION
//! ```
//!
//! Each of the first QUERIES texts is paired with each text, and one call scores all pairs. Loading and a warm-up are not measured. The
//! last line of the output is JSON: the rate, and the scores of the first pairs, as the model gives them.

#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::env;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use flow_models::{CrossEncoder, EncoderOptions, OpenDevices, PairScores, ScoreRequest};
use serde_json::{Value, json};

/// Maximum tokens of a pair, as for the systems that it is compared with.
const LENGTH: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Pairs whose scores are printed.
const COMPARED: usize = 64;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [model, file, queries, precision] = arguments.as_slice() else {
        panic!("the arguments are MODEL, a file of documents, QUERIES and PRECISION");
    };
    let texts = read(file);
    let queries = &texts[..queries.parse::<usize>().expect("a number of queries")];
    let options = EncoderOptions {
        precision: serde_json::from_value(json!(precision)).expect("a precision"),
        max_length: Some(LENGTH),
        ..EncoderOptions::default()
    };
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let devices = OpenDevices::cpu(cores, None);
    let encoder = CrossEncoder::load(Path::new(model), &options, devices).expect("a cross-encoder");
    let pairs = (0..queries.len()).flat_map(|query| texts.iter().map(move |text| (query, text)));
    let pairs: Vec<(usize, &String)> = pairs.collect();
    let score = |pairs: &[(usize, &String)]| -> PairScores {
        let scored = encoder.score(queries, pairs, ScoreRequest::default(), &|| false);
        scored.expect("fixed input")
    };
    score(&pairs[..pairs.len().min(128)]);
    let started = Instant::now();
    let scored = score(&pairs);
    let rate = pairs.len() as f64 / started.elapsed().as_secs_f64();
    let scores = &scored.scores[..pairs.len().min(COMPARED)];
    println!("{}", json!({ "pairs_per_s": rate, "scores": scores }));
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
