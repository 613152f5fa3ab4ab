//! The encoder on GPUs: on an emulated GPU everywhere, and on a real GPU where there is one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_core::Chain;
use flow_cuda::Gpu;
use flow_cuda_emulator::{EmulatedGpu, EmulatorSettings};
use flow_models::engine::FAMILIES;
use flow_models::{DeviceSpec, EncoderOptions, EngineKind, OpenDevices, Precision, TextEncoder};
use serde_json::json;

use crate::tiny_model::TinyModel;
use crate::{
    CORES, cosine, cross_encoder, families, fidelity, load, load_on, minilm, real_gpu,
    text_classifier,
};

/// Precisions, with the maximum error of values around 1.
const PRECISIONS: [(Precision, f64); 4] = [
    (Precision::F32, 5e-6),
    (Precision::Tf32, 1e-2),
    (Precision::F16, 1e-2),
    (Precision::Bf16, 8e-2),
];

/// Emulated GPUs. `None` on a machine without a C++ compiler.
fn emulated(count: usize, settings: EmulatorSettings) -> Option<OpenDevices> {
    let open = |_| match EmulatedGpu::new(settings) {
        Ok(emulator) => {
            let gpu: Arc<dyn Gpu> = emulator;
            Some(gpu)
        }
        Err(error) if error.is_missing_tool() => {
            eprintln!("SKIPPED: {error}, so no GPU can be emulated");
            None
        }
        Err(error) => panic!("{error}"),
    };
    Some(OpenDevices {
        cores: CORES,
        gpus: (0..count).map(open).collect::<Option<_>>()?,
        fallback_reason: None,
    })
}

/// All GPUs to test on.
fn devices() -> impl Iterator<Item = OpenDevices> {
    let emulated = emulated(1, EmulatorSettings::default());
    emulated.into_iter().chain(real_gpu())
}

fn with_precision(precision: Precision) -> EncoderOptions {
    EncoderOptions {
        precision: Some(precision),
        ..EncoderOptions::default()
    }
}

fn rows(encoder: &TextEncoder, texts: &[impl AsRef<str> + Sync]) -> Vec<Vec<f32>> {
    let vectors = encoder.encode(texts, None).unwrap();
    vectors.rows().map(<[f32]>::to_vec).collect()
}

#[test]
fn every_family_equals_the_reference() {
    for device in devices() {
        for model_type in FAMILIES {
            for (precision, difference_max) in PRECISIONS {
                families::check_on(device.clone(), model_type, precision, difference_max);
            }
        }
    }
}

#[test]
fn scores_of_pairs_of_every_family_equal_the_reference() {
    for device in devices() {
        for model_type in FAMILIES {
            for (precision, difference_max) in PRECISIONS {
                let options = with_precision(precision);
                cross_encoder::check_on(device.clone(), model_type, &options, difference_max);
            }
        }
    }
}

#[test]
fn outputs_of_a_classifier_equal_those_of_the_cpu() {
    for device in devices() {
        text_classifier::check_on(device, &with_precision(Precision::F32), 5e-6);
    }
}

/// The minimum cosine of a precision with 32-bit floats.
fn cosine_min(precision: Precision) -> f64 {
    if precision == Precision::F32 {
        0.999_999
    } else {
        0.999_5
    }
}

#[test]
fn every_family_equals_the_cpu() {
    let texts = ["a", "a b c d d c b a", "d", "c c b", "b a d", ""];
    for device in devices() {
        for model_type in FAMILIES {
            let model = TinyModel::of(model_type);
            let expected = rows(&load(model.path(), &EncoderOptions::default()), &texts);
            for (precision, _) in PRECISIONS {
                let encoder = load_on(device.clone(), model.path(), &with_precision(precision));
                for (actual, expected) in rows(&encoder, &texts).iter().zip(&expected) {
                    let cosine = cosine(actual, expected);
                    let what = format!("{model_type} {precision}: {cosine}");
                    assert!(cosine >= cosine_min(precision), "{what}");
                }
            }
        }
    }
}

/// Compares texts of at most `bytes_max` bytes with sentence-transformers.
fn check_minilm(device: &OpenDevices, precision: Precision, bytes_max: usize) {
    let encoder = load_on(device.clone(), minilm(), &with_precision(precision));
    let texts = fidelity::texts().into_iter().zip(fidelity::reference());
    let (texts, reference): (Vec<_>, Vec<_>) =
        texts.filter(|(text, _)| text.len() <= bytes_max).unzip();
    assert!(texts.len() > 5, "{} texts", texts.len());
    let actual = rows(&encoder, &texts);
    let cosines = actual.iter().zip(&reference).map(|(a, b)| cosine(a, b));
    let least = cosines.fold(1.0, f64::min);
    println!(
        "{precision}: lowest cosine {least:.7} of {} texts",
        texts.len()
    );
    assert!(least >= cosine_min(precision), "{precision}: {least}");
}

#[test]
fn short_texts_on_an_emulated_gpu_equal_sentence_transformers() {
    let Some(device) = emulated(1, EmulatorSettings::default()) else {
        return;
    };
    for (precision, _) in PRECISIONS {
        check_minilm(&device, precision, 12);
    }
}

#[test]
fn every_text_on_a_real_gpu_equals_sentence_transformers() {
    let Some(device) = real_gpu() else { return };
    for (precision, _) in PRECISIONS {
        check_minilm(&device, precision, usize::MAX);
    }
}

fn many_texts(count: usize) -> Vec<String> {
    let text = |number: usize| ["a ", "b c ", "d a b "][number % 3].repeat(1 + number % 4);
    (0..count).map(text).collect()
}

#[test]
fn many_texts_come_back_in_their_order_from_several_gpus() {
    let model = TinyModel::bert();
    let texts = many_texts(300);
    let Some(one) = emulated(1, EmulatorSettings::default()) else {
        return;
    };
    let Some(two) = emulated(2, EmulatorSettings::default()) else {
        return;
    };
    let one = load_on(one, model.path(), &EncoderOptions::default());
    // Small batches, so that there are more batches than streams.
    let options = EncoderOptions {
        batch_tokens: NonZeroUsize::new(100),
        batch_size: NonZeroUsize::new(9),
        ..EncoderOptions::default()
    };
    let two = load_on(two, model.path(), &options);
    let together = rows(&two, &texts);
    assert_eq!(together, rows(&one, &texts));
    for number in [0, 1, 150, 299] {
        let alone = rows(&one, &texts[number..=number]);
        assert_eq!(alone[0], together[number], "text {number}");
    }
}

#[test]
fn half_precision_is_the_default_and_batches_are_sized_by_memory() {
    let model = TinyModel::bert();
    let Some(device) = emulated(1, EmulatorSettings::default()) else {
        return;
    };
    let encoder = load_on(device.clone(), model.path(), &EncoderOptions::default());
    let computing = encoder.info();
    assert_eq!(
        (computing.engine, &computing.precision[..]),
        ("flow", "f16")
    );
    assert_eq!(computing.back_end, "cuda 9.0");
    assert_eq!(encoder.max_batch_tokens().get(), 32 * 1024);
    // A number that discovery can carry, as a 64-bit float.
    assert_eq!(encoder.max_batch_texts(), encoder.max_batch_tokens());
    // Two workers tokenize, and one waits for each of two streams.
    assert_eq!(encoder.threads(), 4);
    let options = EncoderOptions {
        batch_tokens: NonZeroUsize::new(77),
        ..EncoderOptions::default()
    };
    let encoder = load_on(device, model.path(), &options);
    assert_eq!(encoder.max_batch_tokens(), NonZeroUsize::new(77).unwrap());
}

#[test]
fn an_excluded_prompt_is_not_pooled_and_vectors_are_truncated() {
    let model = TinyModel::bert();
    model.write(
        "1_Pooling/config.json",
        &json!({"word_embedding_dimension": 8, "pooling_mode": "max", "include_prompt": false}),
    );
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    ]);
    model.write("modules.json", &modules);
    let options = EncoderOptions {
        prompt: Some("a b ".to_owned()),
        dimensions: NonZeroUsize::new(5),
        ..with_precision(Precision::F32)
    };
    let Some(device) = emulated(1, EmulatorSettings::default()) else {
        return;
    };
    let texts = ["c", "d d c"];
    let expected = rows(&load(model.path(), &options), &texts);
    let actual = rows(&load_on(device, model.path(), &options), &texts);
    for (actual, expected) in actual.iter().zip(&expected) {
        assert_eq!(actual.len(), 5);
        assert!(
            crate::largest_difference(actual, expected) < 1e-5,
            "{actual:?}, {expected:?}"
        );
    }
}

/// Loading must fail with an error that contains all `parts`.
#[track_caller]
fn check_refused(device: OpenDevices, options: &EncoderOptions, parts: &[&str]) {
    let model = TinyModel::bert();
    let error = TextEncoder::load(model.path(), options, device).unwrap_err();
    let error = Chain(&error).to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
}

#[test]
fn unsupported_combinations_are_refused_by_name() {
    let cpu = || DeviceSpec::Cpu.open(CORES).unwrap();
    for precision in [Precision::F16, Precision::Tf32] {
        let expected = [&format!("`{precision}`")[..], "only GPUs", "`bf16`"];
        check_refused(cpu(), &with_precision(precision), &expected);
    }
    let candle = EncoderOptions {
        engine: EngineKind::Candle,
        ..EncoderOptions::default()
    };
    let candle_in_half = EncoderOptions {
        precision: Some(Precision::F16),
        ..candle.clone()
    };
    check_refused(cpu(), &candle_in_half, &["`candle`", "f32"]);
    let Some(gpu) = emulated(1, EmulatorSettings::default()) else {
        return;
    };
    check_refused(gpu, &candle, &["`candle`", "`device: cpu`"]);
    let old = EmulatorSettings {
        capability: flow_cuda::Capability { major: 7, minor: 5 },
        ..EmulatorSettings::default()
    };
    let Some(gpu) = emulated(1, old) else { return };
    let bf16 = with_precision(Precision::Bf16);
    check_refused(gpu, &bf16, &["7.5", "`bf16`", "8.0"]);
    let full = EmulatorSettings {
        memory: 1000,
        ..EmulatorSettings::default()
    };
    let Some(gpu) = emulated(1, full) else { return };
    let cuda = EncoderOptions {
        device: DeviceSpec::Cuda(None),
        ..EncoderOptions::default()
    };
    check_refused(gpu, &cuda, &["cannot load the model", "no room"]);
}

#[test]
fn auto_falls_back_to_the_cpu_if_a_gpu_has_too_little_memory() {
    let full = EmulatorSettings {
        memory: 1000,
        ..EmulatorSettings::default()
    };
    let Some(device) = emulated(1, full) else {
        return;
    };
    let model = TinyModel::bert();
    let auto = EncoderOptions {
        device: DeviceSpec::Auto,
        ..EncoderOptions::default()
    };
    let encoder = load_on(device, model.path(), &auto);
    assert!(encoder.gpu().is_none());
    let expected = load(model.path(), &EncoderOptions::default());
    assert_eq!(rows(&encoder, &["a b"]), rows(&expected, &["a b"]));
}

#[test]
fn a_lost_gpu_is_a_sticky_error() {
    let model = TinyModel::bert();
    // A wait after those of loading the model.
    let lost = EmulatorSettings {
        lost_at: Some(60),
        ..EmulatorSettings::default()
    };
    let Some(device) = emulated(1, lost) else {
        return;
    };
    let encoder = load_on(device, model.path(), &EncoderOptions::default());
    let error = (0..60).find_map(|_| encoder.encode(&["a"], None).err());
    let error = error.unwrap();
    assert!(error.is_sticky(), "{}", Chain(&error));
    assert!(
        Chain(&error).to_string().contains("lost"),
        "{}",
        Chain(&error)
    );
}
