//! The memory of an encoder: its weights once, and nothing of the texts that it has encoded.

use std::fs;
use std::process::Command;

use flow_models::{EncoderOptions, Precision};

use crate::tiny_model::TinyModel;
use crate::{load, minilm};

/// Set to a number of texts for the child process that encodes them and does nothing else.
const CHILD: &str = "FLOW_MEMORY_TEXTS";

const TEXTS: usize = 100_000;

/// Maximum growth: pages that the allocator retains. One vector per text would be far more.
const GROWTH_MAX_KB: usize = 8 * 1024;

const NAME: &str = "memory::encoded_texts_leave_nothing_behind";

#[test]
fn encoded_texts_leave_nothing_behind() {
    if let Some(texts) = std::env::var_os(CHILD) {
        return encode(texts.to_str().unwrap().parse().unwrap());
    }
    // In a child process, because other tests allocate memory too.
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", NAME]).env(CHILD, TEXTS.to_string());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn encode(texts: usize) {
    let model = TinyModel::bert();
    let encoder = load(model.path(), &EncoderOptions::default());
    let text = |number: usize| ["a", "b c", "d a b c a b"][number % 3].repeat(1 + number % 7);
    let batch: Vec<String> = (0..5000).map(text).collect();
    encoder.encode(&batch, None).unwrap();
    let before = resident_kb();
    for _ in 0..texts.div_ceil(batch.len()) {
        encoder.encode(&batch, None).unwrap();
        encoder.encode(&batch[..32], None).unwrap();
        encoder.encode(&batch[..1], None).unwrap();
    }
    let growth = resident_kb().saturating_sub(before);
    assert!(growth <= GROWTH_MAX_KB, "{growth} KB more than {before} KB");
}

/// The resident memory of this process, or 0 if the system does not report it.
fn resident_kb() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.map_or(0, |number| number.parse().unwrap())
}

#[test]
fn weights_in_bf16_take_half_the_memory() {
    let megabytes = |precision| {
        let options = EncoderOptions {
            precision: Some(precision),
            ..EncoderOptions::default()
        };
        let encoder = load(minilm(), &options);
        encoder.weight_bytes().unwrap() as f64 / 1e6
    };
    // 22.7 million parameters.
    let (whole, half) = (megabytes(Precision::F32), megabytes(Precision::Bf16));
    assert!((89.0..90.0).contains(&whole), "{whole} MB");
    assert!((44.0..45.0).contains(&half), "{half} MB");
}
