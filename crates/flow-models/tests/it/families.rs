//! Compares each family, with each instruction set that the machine has and on GPUs, with plain loops in 64-bit floats.

use std::collections::BTreeMap;

use flow_kernels::InstructionSet;
use flow_models::engine::FAMILIES;
use flow_models::{EncoderOptions, OpenDevices, Precision, TextEncoder};

use crate::tiny_model::{
    EPSILON, HEADS, HIDDEN, INNER, LAYERS, TensorValues, TinyModel, classifier_values,
    first_position, head_names, masked_lm_names, masked_lm_values, names, prefix, token_types,
    values,
};

/// Texts with their token ids, which include `[CLS]` and `[SEP]`.
const TEXTS: [(&str, &[usize]); 4] = [
    ("a", &[2, 4, 3]),
    ("a b c d d c b a", &[2, 4, 5, 6, 7, 7, 6, 5, 4, 3]),
    ("d", &[2, 7, 3]),
    ("c c b", &[2, 6, 6, 5, 3]),
];

/// A plain implementation of a model.
pub(crate) struct ReferenceModel {
    model_type: &'static str,
    tensors: BTreeMap<String, Vec<f64>>,
}

pub(crate) type Row = Vec<f64>;

/// A plain implementation of a model with a classification head: one output per label.
pub(crate) fn classification_reference(
    (model_type, labels): (&'static str, usize),
    ids: &[usize],
    second_start: usize,
) -> Vec<f64> {
    let start = format!("{}.", prefix(model_type));
    let [hidden, label] = head_names(model_type);
    let unprefixed = |name: String| match name.strip_prefix(&start) {
        Some(rest) if !name.starts_with(hidden) => rest.to_owned(),
        _ => name,
    };
    let tensors = classifier_values(model_type, labels);
    let tensors = tensors
        .into_iter()
        .map(|(name, shape, values)| (unprefixed(name), shape, values));
    let model = ReferenceModel::with(model_type, tensors.collect());
    let first = model.states(ids, second_start).swap_remove(0);
    let hidden = model.linear(hidden, &first);
    let activated = hidden.into_iter().map(|value| match model_type {
        "distilbert" => value.max(0.0),
        _ => value.tanh(),
    });
    model.linear(label, &activated.collect::<Vec<_>>())
}

/// A plain implementation of a sparse encoder: the weight of each word of the vocabulary.
pub(crate) fn sparse_reference(
    (model_type, has_words): (&'static str, bool),
    ids: &[usize],
) -> Vec<f64> {
    let start = format!("{}.", prefix(model_type));
    let tensors = masked_lm_values(model_type, has_words).into_iter();
    let tensors = tensors.map(|(name, shape, values)| {
        let unprefixed = name.strip_prefix(&start).map(str::to_owned);
        (unprefixed.unwrap_or(name), shape, values)
    });
    let model = ReferenceModel::with(model_type, tensors.collect());
    let [transform, norm, words, bias] = masked_lm_names(model_type);
    let words = match has_words {
        true => &model.tensors[words],
        false => &model.tensors["embeddings.word_embeddings.weight"],
    };
    let bias = &model.tensors[bias];
    let mut largest = vec![0.0_f64; bias.len()];
    for state in model.states(ids, ids.len()) {
        let hidden: Row = model
            .linear(transform, &state)
            .into_iter()
            .map(gelu)
            .collect();
        let hidden = model.norm(norm, &hidden);
        let scores = words.chunks(HIDDEN).zip(bias);
        let scores = scores.map(|(word, bias)| dot(word, &hidden) + bias);
        for (largest, score) in largest.iter_mut().zip(scores) {
            *largest = largest.max(score);
        }
    }
    largest.into_iter().map(f64::ln_1p).collect()
}

impl ReferenceModel {
    fn of(model_type: &'static str) -> Self {
        Self::with(model_type, values(model_type))
    }

    /// A model with these tensors, whose names have no prefix.
    pub(crate) fn with(model_type: &'static str, tensors: Vec<TensorValues>) -> Self {
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
        let tensors = tensors
            .into_iter()
            .map(|(name, _, values)| (name, wide(values)));
        Self {
            model_type,
            tensors: tensors.collect(),
        }
    }

    /// The hidden states of tokens after the last layer. Those from `second_start` on have type 1.
    pub(crate) fn states(&self, ids: &[usize], second_start: usize) -> Vec<Row> {
        let kind = |at: usize| usize::from(at >= second_start);
        let mut states: Vec<Row> = ids
            .iter()
            .enumerate()
            .map(|(at, id)| self.embed(at, *id, kind(at)))
            .collect();
        for layer in 0..LAYERS {
            states = self.layer(&names(self.model_type, layer), &states);
        }
        states
    }

    /// The mean of a text's hidden states.
    fn vector(&self, ids: &[usize]) -> Row {
        let states = self.states(ids, ids.len());
        let mean = |column: usize| {
            states.iter().map(|state| state[column]).sum::<f64>() / ids.len() as f64
        };
        (0..HIDDEN).map(mean).collect()
    }

    fn embed(&self, at: usize, id: usize, kind: usize) -> Row {
        let row = |table: &str, row: usize| {
            let values = &self.tensors[&format!("embeddings.{table}.weight")];
            values[row * HIDDEN..][..HIDDEN].to_vec()
        };
        let position = row("position_embeddings", at + first_position(self.model_type));
        let mut sum = add(&row("word_embeddings", id), &position);
        let types = token_types(self.model_type);
        if types > 0 {
            sum = add(&sum, &row("token_type_embeddings", kind.min(types - 1)));
        }
        self.norm("embeddings.LayerNorm", &sum)
    }

    fn layer(&self, names: &[String; 8], states: &[Row]) -> Vec<Row> {
        let [query, key, value, out, out_norm, up, down, down_norm] = names;
        let all =
            |name: &str| -> Vec<Row> { states.iter().map(|it| self.linear(name, it)).collect() };
        let (queries, keys, values) = (all(query), all(key), all(value));
        let step = |(at, state): (usize, &Row)| {
            let context = self.attend(at, &queries[at], &keys, &values);
            let state = self.norm(out_norm, &add(state, &self.linear(out, &context)));
            let inner: Row = self.linear(up, &state).into_iter().map(gelu).collect();
            assert_eq!(inner.len(), INNER);
            self.norm(down_norm, &add(&state, &self.linear(down, &inner)))
        };
        states.iter().enumerate().map(step).collect()
    }

    fn attend(&self, at: usize, query: &Row, keys: &[Row], values: &[Row]) -> Row {
        let width = HIDDEN / HEADS;
        let mut context = vec![0.0; HIDDEN];
        for head in 0..HEADS {
            let part = head * width..(head + 1) * width;
            let weight = |(key_at, key): (usize, &Row)| {
                let product = dot(&query[part.clone()], &key[part.clone()]);
                (product / (width as f64).sqrt() + self.distance(head, at, key_at)).exp()
            };
            let weights: Row = keys.iter().enumerate().map(weight).collect();
            let total: f64 = weights.iter().sum();
            for (weight, value) in weights.iter().zip(values) {
                for column in part.clone() {
                    context[column] += weight / total * value[column];
                }
            }
        }
        context
    }

    /// MPNet's relative position bias. In these short texts, only distances of eight and more share a bucket.
    fn distance(&self, head: usize, query: usize, key: usize) -> f64 {
        if self.model_type != "mpnet" {
            return 0.0;
        }
        let start = if key > query { 16 } else { 0 };
        let steps = key.abs_diff(query).min(8);
        self.tensors["encoder.relative_attention_bias.weight"][(start + steps) * HEADS + head]
    }

    pub(crate) fn linear(&self, name: &str, state: &[f64]) -> Row {
        let weights = self.tensors[&format!("{name}.weight")].chunks(state.len());
        let bias = &self.tensors[&format!("{name}.bias")];
        weights
            .zip(bias)
            .map(|(row, bias)| dot(row, state) + bias)
            .collect()
    }

    fn norm(&self, name: &str, state: &[f64]) -> Row {
        let (scale, shift) = (
            &self.tensors[&format!("{name}.weight")],
            &self.tensors[&format!("{name}.bias")],
        );
        let mean = state.iter().sum::<f64>() / HIDDEN as f64;
        let variance = state
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / HIDDEN as f64;
        let by = 1.0 / (variance + EPSILON).sqrt();
        let one = |at: usize| (state[at] - mean) * by * scale[at] + shift[at];
        (0..HIDDEN).map(one).collect()
    }
}

fn add(a: &[f64], b: &[f64]) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// GELU, with the power series of the error function, which converges quickly for small values.
fn gelu(x: f64) -> f64 {
    let x_erf = x * std::f64::consts::FRAC_1_SQRT_2;
    let (mut term, mut sum) = (x_erf, x_erf);
    for n in 1..100 {
        term *= -x_erf * x_erf / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    0.5 * x * (1.0 + sum * 2.0 / std::f64::consts::PI.sqrt())
}

/// Compares a family on the CPU. `difference_max` applies to values around 1.
fn check(model_type: &'static str, precision: Precision, set: InstructionSet, difference_max: f64) {
    let model = TinyModel::of(model_type);
    let options = EncoderOptions {
        precision: Some(precision),
        back_end: Some(set),
        ..EncoderOptions::default()
    };
    let encoder = crate::load(model.path(), &options);
    let what = format!("{model_type} {precision} {set}");
    check_encoder(&encoder, model_type, &what, difference_max);
}

/// Compares a family on a device.
pub(crate) fn check_on(
    device: OpenDevices,
    model_type: &'static str,
    precision: Precision,
    difference_max: f64,
) {
    let model = TinyModel::of(model_type);
    let options = EncoderOptions {
        precision: Some(precision),
        ..EncoderOptions::default()
    };
    let encoder = crate::load_on(device, model.path(), &options);
    let what = format!("{model_type} {precision} on a GPU");
    check_encoder(&encoder, model_type, &what, difference_max);
}

fn check_encoder(encoder: &TextEncoder, model_type: &'static str, what: &str, difference_max: f64) {
    let reference = ReferenceModel::of(model_type);
    let texts = TEXTS.map(|(text, _)| text);
    let together = encoder.encode(&texts, None).unwrap();
    for ((text, ids), actual) in TEXTS.iter().zip(together.rows()) {
        let alone = encoder.encode(&[text], None).unwrap();
        assert_eq!(alone.rows().next().unwrap(), actual, "{what}: {text:?}");
        for (actual, expected) in actual.iter().zip(reference.vector(ids)) {
            let difference = (f64::from(*actual) - expected).abs();
            assert!(
                difference < difference_max,
                "{what} {text:?}: {actual}, expected {expected}"
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
