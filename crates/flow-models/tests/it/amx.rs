//! The real model on AMX's tiles, which an emulator computes where the machine has all but AMX.

use std::process::Command;

use flow_kernels::InstructionSet;
use flow_models::{EncoderOptions, Precision};

use crate::fidelity::{reference, texts};
use crate::{cosine, load, minilm};

/// The longest of the hard texts would take the emulator a minute.
const LETTERS_MAX: usize = 50;

const APART: &str = "FLOW_TEST_AMX";

/// Apart, so that AMX counts as there for no other test.
#[test]
fn on_amx_vectors_are_those_of_sentence_transformers() {
    let itself = std::env::current_exe().unwrap();
    let mut command = Command::new(itself);
    command.args([
        "--exact",
        "amx::compared_in_a_process_of_its_own",
        "--nocapture",
    ]);
    let output = command.env(APART, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}{errors}"
    );
    print!("{told}");
    eprint!("{errors}");
}

#[test]
fn compared_in_a_process_of_its_own() {
    if std::env::var_os(APART).is_some() {
        compare();
    }
}

fn compare() {
    flow_amx_emulator::install().unwrap();
    if InstructionSet::available().all(|set| set != InstructionSet::Amx) {
        eprintln!(
            "SKIPPED on AMX: this machine lacks AVX-512 with bf16, with which the rest is computed"
        );
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
    assert_eq!(amx.computing().back_end, "amx");
    let pairs = texts().into_iter().zip(reference());
    let (texts, reference): (Vec<String>, Vec<_>) = pairs
        .filter(|(text, _)| text.chars().count() <= LETTERS_MAX)
        .unzip();
    let got = amx.encode(&texts, None).unwrap();
    let other = avx512.encode(&texts, None).unwrap();
    let (mut lowest, mut nearest) = (1.0_f64, 1.0_f64);
    for ((got, other), wanted) in got.rows().zip(other.rows()).zip(&reference) {
        lowest = lowest.min(cosine(got, wanted));
        nearest = nearest.min(cosine(got, other));
    }
    println!(
        "{} texts on AMX: lowest cosine {lowest:.7}, with AVX-512's bf16 {nearest:.7}",
        texts.len()
    );
    assert!(
        texts.len() >= 30 && lowest >= 0.9998 && nearest >= 0.9999,
        "{} texts, {lowest}, {nearest}",
        texts.len()
    );
    for number in [0, 7] {
        let alone = amx.encode(&texts[number..=number], None).unwrap();
        assert_eq!(alone.rows().next(), got.rows().nth(number), "text {number}");
    }
}
