//! Compares the scores of cross-encoders of each family, with each instruction set, with plain loops in 64-bit floats.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow_core::Chain;
use flow_kernels::InstructionSet;
use flow_models::engine::FAMILIES;
use flow_models::{
    CrossEncoder, EncodeError, EncoderOptions, OpenDevices, PairScores, Precision, ScoreRequest,
};

use crate::families::classification_reference;
use crate::tiny_model::TinyModel;

/// A pair with its token ids, and the number of tokens before the second text.
type Pair = ((&'static str, &'static str), &'static [usize], usize);

const PAIRS: [Pair; 4] = [
    (("a", "b"), &[2, 4, 3, 5, 3], 3),
    (
        ("a b c", "d d c b a"),
        &[2, 4, 5, 6, 3, 7, 7, 6, 5, 4, 3],
        5,
    ),
    (("d", "a b"), &[2, 7, 3, 4, 5, 3], 3),
    (("c c b", "a"), &[2, 6, 6, 5, 3, 4, 3], 5),
];

fn texts() -> Vec<(&'static str, &'static str)> {
    PAIRS.iter().map(|(texts, ..)| *texts).collect()
}

fn load(model: &TinyModel, options: &EncoderOptions) -> CrossEncoder {
    CrossEncoder::load(model.path(), options, crate::cpu()).unwrap()
}

/// Compares the scores of a model of this type with plain loops. `what` describes the model in messages.
fn compare(model: &CrossEncoder, (model_type, what): (&'static str, &str), difference_max: f64) {
    let together = scores(model, &texts());
    for ((texts, ids, second_start), score) in PAIRS.iter().zip(together) {
        assert_eq!(scores(model, &[*texts]), [score], "{what} {texts:?}");
        let expected = reference(model_type, ids, *second_start);
        let difference = (f64::from(score) - expected).abs();
        assert!(
            difference < difference_max,
            "{what} {texts:?}: {score}, expected {expected}"
        );
    }
}

/// Compares scores that GPUs computed with plain loops.
pub(crate) fn check_on(
    devices: OpenDevices,
    model_type: &'static str,
    options: &EncoderOptions,
    difference_max: f64,
) {
    let model = TinyModel::classifier(model_type, 1);
    let model = CrossEncoder::load(model.path(), options, devices).unwrap();
    assert!(model.model().gpu().is_some());
    let what = format!("{model_type} {:?}", options.precision);
    compare(&model, (model_type, &what), difference_max);
}

/// Scores pairs, each with a query of its own.
fn score(
    model: &CrossEncoder,
    pairs: &[(&str, &str)],
    request: ScoreRequest,
) -> Result<PairScores, EncodeError> {
    let queries: Vec<&str> = pairs.iter().map(|(query, _)| *query).collect();
    let texts: Vec<_> = pairs.iter().map(|(_, text)| *text).enumerate().collect();
    model.score(&queries, &texts, request, &|| false)
}

fn scores(model: &CrossEncoder, pairs: &[(&str, &str)]) -> Vec<f32> {
    score(model, pairs, ScoreRequest::default()).unwrap().scores
}

fn reference(model_type: &'static str, ids: &[usize], second_start: usize) -> f64 {
    classification_reference((model_type, 1), ids, second_start)[0]
}

fn check(model_type: &'static str, precision: Precision, set: InstructionSet, difference_max: f64) {
    let options = EncoderOptions {
        precision: Some(precision),
        back_end: Some(set),
        ..EncoderOptions::default()
    };
    let model = load(&TinyModel::classifier(model_type, 1), &options);
    let what = format!("{model_type} {precision} {set}");
    compare(&model, (model_type, &what), difference_max);
}

#[test]
fn every_family_equals_the_reference_with_every_instruction_set() {
    for model_type in FAMILIES {
        for set in InstructionSet::available() {
            check(model_type, Precision::F32, set, 5e-6);
            check(model_type, Precision::Bf16, set, 5e-2);
            check(model_type, Precision::Int8, set, 5e-2);
        }
    }
}

#[test]
fn the_second_text_of_a_pair_has_a_type_of_its_own() {
    let ids = PAIRS[0].1;
    let differ = |model_type| {
        let (pair, alone) = (reference(model_type, ids, 3), reference(model_type, ids, 5));
        (pair - alone).abs() > 1e-3
    };
    assert!(differ("bert"));
    assert!(!differ("roberta"));
}

#[test]
fn many_pairs_have_the_scores_that_they_have_alone() {
    let model = load(
        &TinyModel::classifier("bert", 1),
        &EncoderOptions::default(),
    );
    let pairs: Vec<_> = texts().into_iter().cycle().take(2500).collect();
    let few = scores(&model, &texts());
    let request = ScoreRequest {
        batch_size: NonZeroUsize::new(7),
        ..ScoreRequest::default()
    };
    let scored = score(&model, &pairs, request).unwrap();
    assert!(scored.scores.chunks(few.len()).all(|part| part == few));
    let lengths = PAIRS.iter().map(|(_, ids, _)| ids.len());
    assert_eq!(scored.tokens[..4], lengths.collect::<Vec<_>>());
    assert_eq!(scored.tokens.len(), pairs.len());
    let none: [(&str, &str); 0] = [];
    assert!(scores(&model, &none).is_empty());
}

#[test]
fn the_longer_text_of_a_long_pair_is_truncated_unless_that_is_forbidden() {
    let options = EncoderOptions {
        max_length: NonZeroUsize::new(7),
        ..EncoderOptions::default()
    };
    let model = load(&TinyModel::classifier("bert", 1), &options);
    let long = "b c d d d d";
    let pairs = [("a", "b c d"), ("a", long), (long, "a")];
    let truncated = [("a", "b c d"), ("a", "b c d"), ("b c d", "a")];
    assert_eq!(scores(&model, &pairs), scores(&model, &truncated));
    let whole = ScoreRequest {
        truncate: false,
        ..ScoreRequest::default()
    };
    assert!(score(&model, &truncated, whole).is_ok());
    for (pairs, place) in [(&pairs[..2], 1), (&pairs[2..], 0)] {
        let error = score(&model, pairs, whole).unwrap_err();
        assert!(matches!(error, EncodeError::TooLong { text, max: 7 } if text == place));
    }
}

#[test]
fn the_longest_texts_that_are_read_take_little_time_and_memory() {
    let model = load(
        &TinyModel::classifier("bert", 1),
        &EncoderOptions::default(),
    );
    let long = "! ".repeat(300_000);
    let short = "! ".repeat(50);
    let found = scores(&model, &[(long.as_str(), long.as_str()); 4]);
    assert_eq!(
        found,
        scores(&model, &[(short.as_str(), short.as_str()); 4])
    );
}

#[test]
fn a_cancelled_call_ends_between_two_batches() {
    let model = load(
        &TinyModel::classifier("bert", 1),
        &EncoderOptions::default(),
    );
    let pairs: Vec<_> = texts().into_iter().cycle().take(2000).collect();
    let asked = AtomicUsize::new(0);
    let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= 70;
    let texts: Vec<_> = pairs.iter().map(|(_, text)| (0, *text)).collect();
    let scored = model.score(&["a"], &texts, ScoreRequest::default(), &is_cancelled);
    let error = scored.unwrap_err();
    assert!(matches!(error, EncodeError::Cancelled));
    let asked = asked.into_inner();
    assert!(asked < 100, "{asked}");
}

/// Loading must fail with an error that contains all `parts`.
#[track_caller]
fn check_refused(model: &TinyModel, max_length: Option<usize>, parts: &[&str]) {
    let options = EncoderOptions {
        max_length: max_length.and_then(NonZeroUsize::new),
        ..EncoderOptions::default()
    };
    let error = CrossEncoder::load(model.path(), &options, crate::cpu()).unwrap_err();
    let error = Chain(&error).to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
}

#[test]
fn what_is_no_reranker_is_refused() {
    let encoder = TinyModel::bert();
    let parts = [
        "no classification head",
        "an encoder, not a reranker",
        "`bert.pooler.dense.weight`",
    ];
    check_refused(&encoder, None, &parts);
    let classifier = TinyModel::classifier("roberta", 3);
    check_refused(&classifier, None, &["3 scores", "a classifier"]);
    let short = TinyModel::classifier("bert", 1);
    check_refused(&short, Some(4), &["`max_length` is 4", "2 more than 3"]);
    check_refused(&short, Some(17), &["`max_length` is 17", "16 tokens"]);
}
