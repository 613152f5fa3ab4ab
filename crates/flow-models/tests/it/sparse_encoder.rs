//! Compares the sparse vectors of each family, with each instruction set, with plain loops in 64-bit floats.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow_core::Chain;
use flow_kernels::InstructionSet;
use flow_models::engine::FAMILIES;
use flow_models::{
    EncodeError, EncoderOptions, Precision, SparseEncoder, SparseRequest, SparseVector,
    SparseVectors, TextEncoder, TruncationDirection,
};
use serde_json::json;

use crate::families::sparse_reference;
use crate::tiny_model::TinyModel;

/// A text and its token ids.
const TEXTS: [(&str, &[usize]); 4] = [
    ("a", &[2, 4, 3]),
    ("a b c d", &[2, 4, 5, 6, 7, 3]),
    (
        "d d c b a b c d a a b",
        &[2, 7, 7, 6, 5, 4, 5, 6, 7, 4, 4, 5, 3],
    ),
    ("c b", &[2, 6, 5, 3]),
];

const WEIGHTS_MAX: usize = 1000;

fn texts() -> Vec<&'static str> {
    TEXTS.iter().map(|(text, _)| *text).collect()
}

fn load(model: &TinyModel, options: &EncoderOptions) -> SparseEncoder {
    SparseEncoder::load(model.path(), options, crate::CORES).unwrap()
}

fn encode(model: &SparseEncoder, texts: &[&str], request: SparseRequest) -> SparseVectors {
    let encoded = model.encode(texts, (request, WEIGHTS_MAX), &|| false);
    encoded.unwrap()
}

/// The weights of all words.
fn dense(vector: &SparseVector, words: usize) -> Vec<f32> {
    let mut all = vec![0.0; words];
    for (&word, &value) in vector.indices.iter().zip(&vector.values) {
        all[word as usize] = value;
    }
    all
}

fn check(model_type: &'static str, precision: Precision, set: InstructionSet, difference_max: f64) {
    let options = EncoderOptions {
        precision: Some(precision),
        back_end: Some(set),
        ..EncoderOptions::default()
    };
    for has_words in [false, true] {
        let model = load(&TinyModel::masked_lm(model_type, has_words), &options);
        let together = encode(&model, &texts(), SparseRequest::default());
        for ((text, ids), vector) in TEXTS.iter().zip(&together.vectors) {
            let what = format!("{model_type} {precision} {set} {text:?}");
            let alone = encode(&model, &[text], SparseRequest::default());
            assert_eq!(alone.vectors, std::slice::from_ref(vector), "{what}");
            let expected = sparse_reference((model_type, has_words), ids);
            for (weight, expected) in dense(vector, model.words()).iter().zip(expected) {
                let difference = (f64::from(*weight) - expected).abs();
                assert!(
                    difference < difference_max,
                    "{what}: {weight}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn every_family_equals_the_reference_with_every_instruction_set() {
    for model_type in FAMILIES {
        for set in InstructionSet::available() {
            check(model_type, Precision::F32, set, 2e-5);
            check(model_type, Precision::Bf16, set, 5e-2);
        }
    }
}

#[test]
fn vectors_do_not_depend_on_batches() {
    let model = load(
        &TinyModel::masked_lm("bert", false),
        &EncoderOptions::default(),
    );
    let texts: Vec<&str> = texts().into_iter().cycle().take(150).collect();
    let together = encode(&model, &texts, SparseRequest::default());
    let one_by_one = SparseRequest {
        batch_size: NonZeroUsize::new(1),
        ..SparseRequest::default()
    };
    assert_eq!(encode(&model, &texts, one_by_one).vectors, together.vectors);
    let lengths = TEXTS.iter().map(|(_, ids)| ids.len());
    let lengths: Vec<usize> = lengths.cycle().take(150).collect();
    assert_eq!(together.tokens, lengths);
    assert_eq!(encode(&model, &[], SparseRequest::default()).vectors, []);
}

#[test]
fn a_request_chooses_the_number_of_words_and_where_a_text_is_cut() {
    let options = EncoderOptions {
        max_length: NonZeroUsize::new(5),
        ..EncoderOptions::default()
    };
    let model = load(&TinyModel::masked_lm("bert", false), &options);
    let all = encode(&model, &["a b"], SparseRequest::default());
    let top = SparseRequest {
        top_k: NonZeroUsize::new(1),
        ..SparseRequest::default()
    };
    let top = encode(&model, &["a b"], top);
    let largest = all.vectors[0].values.iter().copied().fold(0.0, f32::max);
    assert_eq!(top.vectors[0].values, [largest]);

    let left = SparseRequest {
        direction: TruncationDirection::Left,
        ..SparseRequest::default()
    };
    for direction in [TruncationDirection::Left, TruncationDirection::Right] {
        assert!(model.truncates("a b c d", direction).unwrap());
        assert!(!model.truncates("a b c", direction).unwrap());
    }
    assert_eq!(
        encode(&model, &["a b c d"], left).vectors,
        encode(&model, &["b c d"], SparseRequest::default()).vectors
    );
}

#[test]
fn the_weights_of_a_call_are_limited_and_it_can_be_cancelled() {
    let model = load(
        &TinyModel::masked_lm("bert", false),
        &EncoderOptions::default(),
    );
    let request = SparseRequest::default();
    let error = model.encode(&["a b c d"], (request, 0), &|| false);
    assert!(matches!(error, Err(EncodeError::TooManyWeights { max: 0 })));
    let asked = AtomicUsize::new(0);
    let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) > 0;
    let error = model.encode(&["a"], (request, WEIGHTS_MAX), &is_cancelled);
    assert!(matches!(error, Err(EncodeError::Cancelled)));
}

#[test]
fn a_model_without_the_head_is_refused_and_so_is_a_sparse_model_as_an_encoder() {
    let options = EncoderOptions::default();
    let dense = TinyModel::bert();
    let error = SparseEncoder::load(dense.path(), &options, crate::CORES).unwrap_err();
    let error = Chain(&error).to_string();
    assert!(error.contains("no head for masked words"), "{error}");
    assert!(
        error.contains("cls.predictions.transform.dense.weight"),
        "{error}"
    );

    let sparse = TinyModel::masked_lm("bert", false);
    let module = |index: usize, path: &str, kind: &str| json!({"idx": index, "name": index.to_string(), "path": path, "type": kind});
    let modules = json!([
        module(
            0,
            "",
            "sentence_transformers.sparse_encoder.models.MLMTransformer"
        ),
        module(
            1,
            "1_SpladePooling",
            "sentence_transformers.sparse_encoder.models.SpladePooling"
        ),
    ]);
    sparse.write("modules.json", &modules);
    let pooling =
        |activation: &str| json!({"pooling_strategy": "max", "activation_function": activation});
    sparse.write("1_SpladePooling/config.json", &pooling("relu"));
    assert!(SparseEncoder::load(sparse.path(), &options, crate::CORES).is_ok());
    let devices = flow_models::OpenDevices::cpu(crate::CORES, None);
    let error = TextEncoder::load(sparse.path(), &options, devices).unwrap_err();
    assert!(error.to_string().contains("`sparse-encoder`"), "{error}");

    sparse.write("1_SpladePooling/config.json", &pooling("log1p_relu"));
    let error = SparseEncoder::load(sparse.path(), &options, crate::CORES).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("`log1p_relu`") && error.contains("`relu`"),
        "{error}"
    );
}

#[test]
fn the_models_default_prompt_is_put_before_each_text() {
    let model = TinyModel::masked_lm("bert", false);
    let plain = load(&model, &EncoderOptions::default());
    let prompts = json!({"prompts": {"passage": "c d "}, "default_prompt_name": "passage"});
    model.write("config_sentence_transformers.json", &prompts);
    let prompted = load(&model, &EncoderOptions::default());
    assert_eq!(
        encode(&prompted, &["a"], SparseRequest::default()).vectors,
        encode(&plain, &["c d a"], SparseRequest::default()).vectors
    );
}
