//! `precision: fast` with the real model.

use std::fs;
use std::path::PathBuf;

use flow_kernels::{CpuPrecision, Kernels};
use flow_models::{DeviceSpec, EncoderOptions, Fidelity, Precision, TextEncoder};

use crate::{CORES, load, minilm};

fn options(precision: Precision, cache: Option<PathBuf>) -> EncoderOptions {
    EncoderOptions {
        precision: Some(precision),
        cache_folder: cache,
        ..EncoderOptions::default()
    }
}

#[test]
fn the_fastest_precision_of_this_machine_is_chosen() {
    let set = |precision| Kernels::select(precision, None).unwrap().instruction_set();
    let (int8, bf16) = (set(CpuPrecision::Int8), set(CpuPrecision::Bf16));
    let expected = match (int8.has_int8(), bf16.has_bf16()) {
        (true, _) => "int8",
        (false, true) => "bf16",
        (false, false) => "f32",
    };
    let cache = tempfile::tempdir().unwrap();
    let options = options(Precision::Fast, Some(cache.path().to_owned()));
    let encoder = load(minilm(), &options);
    assert_eq!(encoder.info().precision, expected);
}

#[test]
fn a_fidelity_is_measured_once_and_again_if_the_file_is_damaged() {
    let cache = tempfile::tempdir().unwrap();
    let options = options(Precision::Int8, Some(cache.path().to_owned()));
    let devices = DeviceSpec::Cpu.open(CORES).unwrap();
    let measure = || TextEncoder::fidelity(minilm(), &options, &devices).unwrap();
    let measured = measure();
    println!("{measured:?}");
    assert!(measured.reaches(Fidelity::FAST), "{measured:?}");
    assert!(measured.mean_cosine < 1.0, "int8 is not exact");

    let files = fs::read_dir(cache.path().join("fidelity")).unwrap();
    let files: Vec<PathBuf> = files.map(|it| it.unwrap().path()).collect();
    let [file] = files.as_slice() else {
        panic!("{files:?}");
    };
    let stored = r#"{"lowest_cosine": 0.5, "mean_cosine": 0.5}"#;
    fs::write(file, stored).unwrap();
    assert_eq!(measure().lowest_cosine, 0.5, "it is read");
    fs::write(file, &stored[..9]).unwrap();
    assert_eq!(measure(), measured);
}
