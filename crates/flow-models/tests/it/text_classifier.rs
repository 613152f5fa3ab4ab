//! Compares the outputs of classifiers with plain loops in 64-bit floats, and their scores with their outputs.

use std::num::NonZeroUsize;

use flow_core::Chain;
use flow_kernels::InstructionSet;
use flow_models::engine::FAMILIES;
use flow_models::{
    ClassifierInput, EncodeError, EncoderOptions, LabelOutputs, OpenDevices, Precision,
    ScoreRequest, TextClassifier,
};
use serde_json::json;

use crate::families::classification_reference;
use crate::tiny_model::TinyModel;

const LABELS: usize = 3;

/// A text or a pair, its token ids, and the number of tokens before the second text.
type Case = (
    (&'static str, Option<&'static str>),
    &'static [usize],
    usize,
);

const CASES: [Case; 4] = [
    (("a b c d", None), &[2, 4, 5, 6, 7, 3], 6),
    (("a", Some("b")), &[2, 4, 3, 5, 3], 3),
    (("d", None), &[2, 7, 3], 3),
    (
        ("a b c", Some("d d c b a")),
        &[2, 4, 5, 6, 3, 7, 7, 6, 5, 4, 3],
        5,
    ),
];

fn inputs(cases: &[Case]) -> Vec<ClassifierInput> {
    let input = |((text, pair), ..): &Case| ClassifierInput {
        text: (*text).to_owned(),
        pair: pair.map(str::to_owned),
    };
    cases.iter().map(input).collect()
}

fn load(model: &TinyModel, options: &EncoderOptions) -> TextClassifier {
    TextClassifier::load(model.path(), options, crate::cpu()).unwrap()
}

/// Classifies on GPUs. The outputs must be those of the CPU.
pub(crate) fn check_on(devices: OpenDevices, options: &EncoderOptions, difference_max: f32) {
    let folder = TinyModel::classifier("bert", LABELS);
    let on_gpu = TextClassifier::load(folder.path(), options, devices).unwrap();
    let on_cpu = load(&folder, &EncoderOptions::default());
    let outputs = |model| {
        let classified = classify(model, &inputs(&CASES), ScoreRequest::default());
        classified.unwrap().values
    };
    let difference = crate::largest_difference(&outputs(&on_gpu), &outputs(&on_cpu));
    assert!(difference < difference_max, "{difference}");
}

fn classify(
    model: &TextClassifier,
    inputs: &[ClassifierInput],
    request: ScoreRequest,
) -> Result<LabelOutputs, EncodeError> {
    model.classify(inputs, request, &|| false)
}

fn check(model_type: &'static str, precision: Precision, set: InstructionSet, difference_max: f64) {
    let options = EncoderOptions {
        precision: Some(precision),
        back_end: Some(set),
        ..EncoderOptions::default()
    };
    let model = load(&TinyModel::classifier(model_type, LABELS), &options);
    let all = classify(&model, &inputs(&CASES), ScoreRequest::default()).unwrap();
    let lengths = CASES.iter().map(|(_, ids, _)| ids.len());
    assert_eq!(all.tokens, lengths.collect::<Vec<_>>());
    for (case, values) in CASES.iter().zip(all.values.chunks_exact(LABELS)) {
        let (texts, ids, second_start) = case;
        let what = format!("{model_type} {precision} {set} {texts:?}");
        let alone = classify(&model, &inputs(&[*case]), ScoreRequest::default()).unwrap();
        assert_eq!(alone.values, values, "{what}");
        let expected = classification_reference((model_type, LABELS), ids, *second_start);
        for (value, expected) in values.iter().zip(expected) {
            let difference = (f64::from(*value) - expected).abs();
            assert!(
                difference < difference_max,
                "{what}: {value}, expected {expected}"
            );
        }
    }
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
fn labels_and_scores_are_those_of_the_configuration() {
    let labels = json!({"0": "bad", "1": "neutral", "2": "good"});
    let scores = |model: TinyModel| {
        let model = load(&model, &EncoderOptions::default());
        let outputs = classify(&model, &inputs(&CASES[..1]), ScoreRequest::default()).unwrap();
        let scores = model.scores(&outputs.values);
        (model.labels().to_vec(), outputs.values, scores)
    };
    let model = TinyModel::classifier("bert", LABELS).configured("id2label", labels);
    let (names, outputs, softmax) = scores(model);
    assert_eq!(names, ["bad", "neutral", "good"]);
    let powers: Vec<f32> = outputs.iter().map(|it| it.exp()).collect();
    let sum: f32 = powers.iter().sum();
    for (score, power) in softmax.iter().zip(&powers) {
        assert!((score - power / sum).abs() < 1e-6, "{softmax:?}");
    }
    let several = TinyModel::classifier("bert", LABELS)
        .configured("problem_type", "multi_label_classification");
    let (names, outputs, sigmoid) = scores(several);
    assert_eq!(names, ["LABEL_0", "LABEL_1", "LABEL_2"]);
    for (score, output) in sigmoid.iter().zip(&outputs) {
        assert!(
            (score - 1.0 / (1.0 + (-output).exp())).abs() < 1e-6,
            "{sigmoid:?}"
        );
    }
}

#[test]
fn many_inputs_have_the_outputs_that_they_have_alone() {
    let model = load(
        &TinyModel::classifier("bert", LABELS),
        &EncoderOptions::default(),
    );
    let few = classify(&model, &inputs(&CASES), ScoreRequest::default()).unwrap();
    let many: Vec<_> = inputs(&CASES).into_iter().cycle().take(2500).collect();
    let request = ScoreRequest {
        batch_size: NonZeroUsize::new(7),
        ..ScoreRequest::default()
    };
    let many = classify(&model, &many, request).unwrap().values;
    let mut parts = many.chunks(few.values.len());
    assert!(parts.all(|part| part == few.values));
}

#[test]
fn a_long_text_is_truncated_unless_that_is_forbidden() {
    let options = EncoderOptions {
        max_length: NonZeroUsize::new(6),
        ..EncoderOptions::default()
    };
    let model = load(&TinyModel::classifier("bert", LABELS), &options);
    let text = |text: &str| ClassifierInput {
        text: text.to_owned(),
        pair: None,
    };
    let request = ScoreRequest::default();
    let fits = classify(&model, &[text("a b c d")], request).unwrap();
    let long = classify(&model, &[text("a b c d d d d")], request).unwrap();
    assert_eq!((&long.values, long.tokens[0]), (&fits.values, 6));
    let whole = ScoreRequest {
        truncate: false,
        ..ScoreRequest::default()
    };
    assert!(classify(&model, &[text("a b c d")], whole).is_ok());
    let error = classify(&model, &[text("a"), text("a b c d d")], whole).unwrap_err();
    assert!(matches!(error, EncodeError::TooLong { text: 1, max: 6 }));
}

#[test]
fn what_is_no_classifier_is_refused() {
    let error = |model: TinyModel| {
        let loaded = TextClassifier::load(model.path(), &EncoderOptions::default(), crate::cpu());
        Chain(&loaded.unwrap_err()).to_string()
    };
    let encoder = error(TinyModel::bert());
    assert!(encoder.contains("no classification head"), "{encoder}");
    let labels = json!({"7": "bad"});
    let unknown = TinyModel::classifier("bert", LABELS).configured("id2label", labels);
    let unknown = error(unknown);
    assert!(
        unknown.contains("`7`, but the model has 3 labels"),
        "{unknown}"
    );
}
