//! The encoder on GPUs: on an emulated one everywhere, and on a real one where there is one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_core::Chain;
use flow_cuda::Gpu;
use flow_cuda_emulator::{Emulator, Settings};
use flow_models::engine::FAMILIES;
use flow_models::{Device, Encoder, EncoderOptions, EngineName, Opened, Precision};
use serde_json::json;

use crate::tiny_model::TinyModel;
use crate::{CORES, cosine, families, fidelity, load, load_on, minilm, real_gpu};

/// Precisions, and how far values around 1 may be off in them.
const PRECISIONS: [(Precision, f64); 4] = [
    (Precision::F32, 5e-6),
    (Precision::Tf32, 1e-2),
    (Precision::F16, 1e-2),
    (Precision::Bf16, 8e-2),
];

/// So many emulated devices; none on a machine without a compiler.
fn emulated(count: usize, settings: Settings) -> Option<Opened> {
    let open = |_| match Emulator::new(settings) {
        Ok(emulator) => {
            let gpu: Arc<dyn Gpu> = emulator;
            Some(gpu)
        }
        Err(error) if error.is_lack() => {
            eprintln!("SKIPPED: {error}, so no GPU can be emulated");
            None
        }
        Err(error) => panic!("{error}"),
    };
    Some(Opened {
        cores: CORES,
        gpus: (0..count).map(open).collect::<Option<_>>()?,
        fallback: None,
    })
}

/// All GPUs there are to test on.
fn devices() -> impl Iterator<Item = Opened> {
    let emulated = emulated(1, Settings::default());
    emulated.into_iter().chain(real_gpu())
}

fn with_precision(precision: Precision) -> EncoderOptions {
    EncoderOptions {
        precision: Some(precision),
        ..EncoderOptions::default()
    }
}

fn rows(encoder: &Encoder, texts: &[impl AsRef<str> + Sync]) -> Vec<Vec<f32>> {
    let vectors = encoder.encode(texts, None).unwrap();
    vectors.rows().map(<[f32]>::to_vec).collect()
}

#[test]
fn every_family_is_what_its_formulas_say() {
    for device in devices() {
        for model_type in FAMILIES {
            for (precision, difference_max) in PRECISIONS {
                families::check_on(device.clone(), model_type, precision, difference_max);
            }
        }
    }
}

/// The lowest cosine that a precision may have with 32-bit floats.
fn cosine_min(precision: Precision) -> f64 {
    if precision == Precision::F32 {
        0.999_999
    } else {
        0.999_5
    }
}

#[test]
fn every_family_is_what_the_processor_computes() {
    let texts = ["a", "a b c d d c b a", "d", "c c b", "b a d", ""];
    for device in devices() {
        for model_type in FAMILIES {
            let made = TinyModel::of(model_type);
            let wanted = rows(&load(made.path(), &EncoderOptions::default()), &texts);
            for (precision, _) in PRECISIONS {
                let encoder = load_on(device.clone(), made.path(), &with_precision(precision));
                for (got, wanted) in rows(&encoder, &texts).iter().zip(&wanted) {
                    let cosine = cosine(got, wanted);
                    let what = format!("{model_type} {precision}: {cosine}");
                    assert!(cosine >= cosine_min(precision), "{what}");
                }
            }
        }
    }
}

/// Against sentence-transformers, the texts with at most so many bytes.
fn check_minilm(device: &Opened, precision: Precision, bytes_max: usize) {
    let encoder = load_on(
        device.clone(),
        minilm(),
        &with_precision(precision),
    );
    let texts = fidelity::texts().into_iter().zip(fidelity::reference());
    let (texts, reference): (Vec<_>, Vec<_>) =
        texts.filter(|(text, _)| text.len() <= bytes_max).unzip();
    assert!(texts.len() > 5, "{} texts", texts.len());
    let got = rows(&encoder, &texts);
    let cosines = got.iter().zip(&reference).map(|(a, b)| cosine(a, b));
    let least = cosines.fold(1.0, f64::min);
    println!(
        "{precision}: lowest cosine {least:.7} of {} texts",
        texts.len()
    );
    assert!(least >= cosine_min(precision), "{precision}: {least}");
}

#[test]
fn short_texts_have_the_vectors_of_sentence_transformers_on_an_emulated_gpu() {
    let Some(device) = emulated(1, Settings::default()) else {
        return;
    };
    for (precision, _) in PRECISIONS {
        check_minilm(&device, precision, 12);
    }
}

#[test]
fn every_text_has_the_vector_of_sentence_transformers_on_a_real_gpu() {
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
    let made = TinyModel::bert();
    let texts = many_texts(300);
    let Some(one) = emulated(1, Settings::default()) else {
        return;
    };
    let Some(two) = emulated(2, Settings::default()) else {
        return;
    };
    let one = load_on(one, made.path(), &EncoderOptions::default());
    // Small chunks, so that there are more than streams.
    let options = EncoderOptions {
        batch_tokens: NonZeroUsize::new(100),
        batch_size: NonZeroUsize::new(9),
        ..EncoderOptions::default()
    };
    let two = load_on(two, made.path(), &options);
    let together = rows(&two, &texts);
    assert_eq!(together, rows(&one, &texts));
    for number in [0, 1, 150, 299] {
        let alone = rows(&one, &texts[number..=number]);
        assert_eq!(alone[0], together[number], "text {number}");
    }
}

#[test]
fn half_precision_is_the_default_and_chunks_are_sized_by_memory() {
    let made = TinyModel::bert();
    let Some(device) = emulated(1, Settings::default()) else {
        return;
    };
    let encoder = load_on(device.clone(), made.path(), &EncoderOptions::default());
    let computing = encoder.computing();
    assert_eq!(
        (computing.engine, &computing.precision[..]),
        ("flow", "f16")
    );
    assert_eq!(computing.back_end, "cuda 9.0");
    assert_eq!(encoder.batch_tokens().get(), 32 * 1024);
    // Two cores tokenize, two streams compute.
    assert_eq!(encoder.threads(), 4);
    let options = EncoderOptions {
        batch_tokens: NonZeroUsize::new(77),
        ..EncoderOptions::default()
    };
    let encoder = load_on(device, made.path(), &options);
    assert_eq!(encoder.batch_tokens(), NonZeroUsize::new(77).unwrap());
}

#[test]
fn a_prompt_that_does_not_count_is_left_out_and_vectors_are_cut_short() {
    let made = TinyModel::bert();
    made.write(
        "1_Pooling/config.json",
        &json!({"word_embedding_dimension": 8, "pooling_mode": "max", "include_prompt": false}),
    );
    let steps = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    ]);
    made.write("modules.json", &steps);
    let options = EncoderOptions {
        prompt: Some("a b ".to_owned()),
        dimensions: NonZeroUsize::new(5),
        ..with_precision(Precision::F32)
    };
    let Some(device) = emulated(1, Settings::default()) else {
        return;
    };
    let texts = ["c", "d d c"];
    let wanted = rows(&load(made.path(), &options), &texts);
    let got = rows(&load_on(device, made.path(), &options), &texts);
    for (got, wanted) in got.iter().zip(&wanted) {
        assert_eq!(got.len(), 5);
        assert!(
            crate::largest_difference(got, wanted) < 1e-5,
            "{got:?}, {wanted:?}"
        );
    }
}

/// Loading fails and says all `parts`.
#[track_caller]
fn check_refused(device: Opened, options: &EncoderOptions, parts: &[&str]) {
    let made = TinyModel::bert();
    let error = Encoder::load(made.path(), options, device).unwrap_err();
    let error = Chain(&error).to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

#[test]
fn what_a_device_cannot_do_is_refused_by_name() {
    let cpu = || Device::Cpu.open(CORES).unwrap();
    for precision in [Precision::F16, Precision::Tf32] {
        let wanted = [&format!("`{precision}`")[..], "only GPUs", "`bf16`"];
        check_refused(cpu(), &with_precision(precision), &wanted);
    }
    let candle = EncoderOptions {
        engine: EngineName::Candle,
        ..EncoderOptions::default()
    };
    let candle_in_half = EncoderOptions {
        precision: Some(Precision::F16),
        ..candle.clone()
    };
    check_refused(cpu(), &candle_in_half, &["`candle`", "f32"]);
    let Some(gpu) = emulated(1, Settings::default()) else {
        return;
    };
    check_refused(gpu, &candle, &["`candle`", "`device: cpu`"]);
    let old = Settings {
        capability: flow_cuda::Capability { major: 7, minor: 5 },
        ..Settings::default()
    };
    let Some(gpu) = emulated(1, old) else { return };
    let bf16 = with_precision(Precision::Bf16);
    check_refused(gpu, &bf16, &["7.5", "`bf16`", "8.0"]);
    let full = Settings {
        memory: 1000,
        ..Settings::default()
    };
    let Some(gpu) = emulated(1, full) else { return };
    let cuda = EncoderOptions {
        device: Device::Cuda(None),
        ..EncoderOptions::default()
    };
    check_refused(gpu, &cuda, &["cannot load the model", "no room"]);
}

#[test]
fn auto_falls_back_to_the_processor_where_a_gpu_has_no_room_for_the_model() {
    let full = Settings {
        memory: 1000,
        ..Settings::default()
    };
    let Some(device) = emulated(1, full) else {
        return;
    };
    let made = TinyModel::bert();
    let auto = EncoderOptions {
        device: Device::Auto,
        ..EncoderOptions::default()
    };
    let encoder = load_on(device, made.path(), &auto);
    assert!(encoder.gpus().is_none());
    let wanted = load(made.path(), &EncoderOptions::default());
    assert_eq!(rows(&encoder, &["a b"]), rows(&wanted, &["a b"]));
}

#[test]
fn a_lost_gpu_is_told_apart_from_other_failures() {
    let made = TinyModel::bert();
    // Some wait after those of loading.
    let lost = Settings {
        lost_at: Some(60),
        ..Settings::default()
    };
    let Some(device) = emulated(1, lost) else {
        return;
    };
    let encoder = load_on(device, made.path(), &EncoderOptions::default());
    let error = (0..60).find_map(|_| encoder.encode(&["a"], None).err());
    let error = error.unwrap();
    assert!(error.is_sticky(), "{}", Chain(&error));
    assert!(
        Chain(&error).to_string().contains("lost"),
        "{}",
        Chain(&error)
    );
}
