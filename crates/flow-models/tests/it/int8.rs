//! Models in 8-bit integers: how close their vectors are to those of 32-bit floats, on every instruction set, and the cache of
//! calibrated models.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flow_kernels::InstructionSet;
use flow_models::{EncoderOptions, Precision, TextEncoder};

use crate::fidelity::{reference, texts};
use crate::{cosine, load, minilm};

/// The fidelity that `precision: int8` promises.
const COSINE_MIN: f64 = 0.999;
const COSINE_MEAN: f64 = 0.9997;

/// A cache that all tests share, so that the model is calibrated once.
fn cache() -> &'static Path {
    static CACHE: OnceLock<tempfile::TempDir> = OnceLock::new();
    CACHE.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

fn options(cache: &Path) -> EncoderOptions {
    EncoderOptions {
        precision: Some(Precision::Int8),
        cache_folder: Some(cache.to_owned()),
        ..EncoderOptions::default()
    }
}

fn encoder() -> &'static TextEncoder {
    static ENCODER: OnceLock<TextEncoder> = OnceLock::new();
    ENCODER.get_or_init(|| load(minilm(), &options(cache())))
}

fn vectors<T: AsRef<str> + Sync>(encoder: &TextEncoder, texts: &[T]) -> Vec<Vec<f32>> {
    let vectors = encoder.encode(texts, None).unwrap();
    vectors.rows().map(<[f32]>::to_vec).collect()
}

/// Texts of 3 to 200 words, most of them short.
fn mixed(count: u32) -> Vec<String> {
    let words: Vec<&str> = include_str!("../../src/lib.rs")
        .split(|character: char| !character.is_alphabetic())
        .filter(|word| word.len() > 1)
        .collect();
    let mut random = 7_u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    let text = |_| {
        let length = 3 + next(14) * next(14);
        let words = (0..length).map(|_| words[next(words.len() as u32) as usize]);
        words.collect::<Vec<_>>().join(" ")
    };
    (0..count).map(text).collect()
}

#[track_caller]
fn check_fidelity(what: &str, actual: &[Vec<f32>], expected: &[Vec<f32>], texts: &[String]) {
    let cosines: Vec<f64> = actual
        .iter()
        .zip(expected)
        .map(|(a, b)| cosine(a, b))
        .collect();
    let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
    let (lowest, text) = cosines
        .iter()
        .zip(texts)
        .min_by(|a, b| a.0.total_cmp(b.0))
        .unwrap();
    println!("{what}: lowest cosine {lowest:.6}, mean {mean:.6}");
    let start: String = text.chars().take(40).collect();
    assert!(*lowest >= COSINE_MIN, "{what}: {start:?}: cosine {lowest}");
    assert!(mean >= COSINE_MEAN, "{what}: mean cosine {mean}");
}

#[test]
fn vectors_are_close_to_those_of_sentence_transformers() {
    check_fidelity(
        "hard texts",
        &vectors(encoder(), &texts()),
        &reference(),
        &texts(),
    );
}

#[test]
fn vectors_of_mixed_texts_are_close_to_those_of_32_bit_floats() {
    let texts = mixed(1000);
    let exact = load(minilm(), &EncoderOptions::default());
    let (actual, expected) = (vectors(encoder(), &texts), vectors(&exact, &texts));
    check_fidelity("mixed texts", &actual, &expected, &texts);
}

#[test]
fn a_vector_has_the_same_bits_alone_and_in_any_batch() {
    let texts = texts();
    let together = vectors(encoder(), &texts);
    let one_by_one = EncoderOptions {
        threads: std::num::NonZeroUsize::new(1),
        ..options(cache())
    };
    let one_by_one = load(minilm(), &one_by_one);
    for (text, expected) in texts.iter().zip(together).step_by(3) {
        let text = std::slice::from_ref(text);
        assert_eq!(
            vectors(encoder(), text)[0],
            expected,
            "on all threads: {text:?}"
        );
        assert_eq!(
            vectors(&one_by_one, text)[0],
            expected,
            "on one thread: {text:?}"
        );
    }
}

#[test]
fn instruction_sets_with_the_same_gelu_have_the_same_integers() {
    let texts = [
        "hello world",
        "a somewhat longer text, with (punctuation) and 42 numbers",
    ];
    let of_set = |set| {
        let options = EncoderOptions {
            back_end: Some(set),
            ..options(cache())
        };
        vectors(&load(minilm(), &options), &texts)
    };
    // All sets load the same calibration.
    encoder();
    // Softmax, layer norm and GELU use fused operations on all sets but the portable one, GELU is another function with
    // AVX-512, and attention uses bf16 where it is fast.
    let available: Vec<_> = InstructionSet::available().collect();
    let same_floats = [
        [InstructionSet::Avx2, InstructionSet::AvxVnni],
        [InstructionSet::Avx512, InstructionSet::Avx512Vnni],
        [InstructionSet::Neon, InstructionSet::NeonDotprod],
        [InstructionSet::NeonDotprod, InstructionSet::NeonI8mm],
    ];
    for same in same_floats {
        let mut vectors = same
            .into_iter()
            .filter(|it| available.contains(it))
            .map(of_set);
        if let (Some(first), Some(second)) = (vectors.next(), vectors.next()) {
            assert_eq!(first, second, "{same:?}");
        }
    }
    let first = of_set(InstructionSet::Portable);
    for set in available {
        for (actual, first) in of_set(set).iter().zip(&first) {
            let cosine = cosine(actual, first);
            // States that differ in their last bit may be rounded to different integers.
            assert!(cosine > 0.9995, "{set}: {cosine}");
        }
    }
}

#[test]
fn weights_take_a_quarter_of_the_memory() {
    let megabytes = encoder().weight_bytes().unwrap() as f64 / 1e6;
    assert!((22.0..24.0).contains(&megabytes), "{megabytes} MB");
}

/// The only file in the cache.
fn file(cache: &Path) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(cache.join("int8"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_model_is_calibrated_once_and_again_if_the_file_is_damaged() {
    let model = crate::tiny_model::TinyModel::bert();
    let cache = tempfile::tempdir().unwrap();
    let encode = || vectors(&load(model.path(), &options(cache.path())), &["a b c"]);
    let calibrated = encode();
    let file = file(cache.path());
    let content = fs::read(&file).unwrap();
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(encode(), calibrated, "from the file");
    assert_eq!(
        fs::metadata(&file).unwrap().modified().unwrap(),
        written,
        "the file is written once"
    );
    fs::write(&file, &content[..content.len() / 2]).unwrap();
    assert_eq!(encode(), calibrated, "from half a file");
    assert_eq!(fs::read(&file).unwrap(), content, "the file is repaired");
}

#[test]
fn a_cache_that_cannot_be_written_does_not_prevent_loading() {
    let model = crate::tiny_model::TinyModel::bert();
    let file = tempfile::NamedTempFile::new().unwrap();
    let vectors = vectors(&load(model.path(), &options(file.path())), &["a b c"]);
    assert!(vectors[0].iter().all(|value| value.is_finite()));
}
