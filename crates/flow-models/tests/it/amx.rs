//! The real model on AMX's tiles, which are emulated on machines that lack only AMX.

use std::process::Command;

use flow_kernels::InstructionSet;
use flow_models::{EncoderOptions, Precision};

use crate::fidelity::{reference, texts};
use crate::{cosine, load, minilm};

/// Maximum characters of a text. The longest ones would take the emulator a minute.
const CHARS_MAX: usize = 50;

/// Set for the child process that encodes.
const CHILD: &str = "FLOW_TEST_AMX";

/// In a child process, so that AMX does not count as available in other tests.
#[test]
fn vectors_on_amx_equal_those_of_sentence_transformers() {
    let itself = std::env::current_exe().unwrap();
    let mut command = Command::new(itself);
    command.args(["--exact", "amx::child_process_that_compares", "--nocapture"]);
    let output = command.env(CHILD, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}{stderr}"
    );
    print!("{stdout}");
    eprint!("{stderr}");
}

#[test]
fn child_process_that_compares() {
    if std::env::var_os(CHILD).is_some() {
        compare();
    }
}

fn compare() {
    flow_amx_emulator::install().unwrap();
    if InstructionSet::available().all(|set| set != InstructionSet::Amx) {
        eprintln!("SKIPPED on AMX: this machine lacks AVX-512 BF16, which the other kernels need");
        return;
    }
    let options = |set| EncoderOptions {
        precision: Some(Precision::Bf16),
        back_end: Some(set),
        ..EncoderOptions::default()
    };
    let (amx, avx512) = (
        load(minilm(), &options(InstructionSet::Amx)),
        load(minilm(), &options(InstructionSet::Avx512Bf16)),
    );
    assert_eq!(amx.info().back_end, "amx");
    let pairs = texts().into_iter().zip(reference());
    let (texts, reference): (Vec<String>, Vec<_>) = pairs
        .filter(|(text, _)| text.chars().count() <= CHARS_MAX)
        .unzip();
    let actual = amx.encode(&texts, None).unwrap();
    let other = avx512.encode(&texts, None).unwrap();
    let (mut lowest, mut nearest) = (1.0_f64, 1.0_f64);
    for ((actual, other), expected) in actual.rows().zip(other.rows()).zip(&reference) {
        lowest = lowest.min(cosine(actual, expected));
        nearest = nearest.min(cosine(actual, other));
    }
    println!(
        "{} texts on AMX: lowest cosine {lowest:.7}, with AVX-512 BF16 {nearest:.7}",
        texts.len()
    );
    assert!(
        texts.len() >= 30 && lowest >= 0.9998 && nearest >= 0.9999,
        "{} texts, {lowest}, {nearest}",
        texts.len()
    );
    for number in [0, 7] {
        let alone = amx.encode(&texts[number..=number], None).unwrap();
        assert_eq!(
            alone.rows().next(),
            actual.rows().nth(number),
            "text {number}"
        );
    }
}
