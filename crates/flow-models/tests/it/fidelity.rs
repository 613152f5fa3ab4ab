//! Vectors equal those of sentence-transformers, for any text and in any batch.

use std::sync::OnceLock;

use flow_models::{EncoderOptions, TextEncoder};
use serde::Deserialize;

use crate::{cosine, largest_difference, load, minilm};

const WIDTH: usize = 384;

#[derive(Deserialize)]
struct TextLine {
    text: String,
}

pub(crate) fn texts() -> Vec<String> {
    let lines = include_str!("../fidelity/texts.jsonl").lines();
    lines
        .map(|line| serde_json::from_str::<TextLine>(line).unwrap().text)
        .collect()
}

/// The vectors of sentence-transformers, made by `fidelity/make.py`.
pub(crate) fn reference() -> Vec<Vec<f32>> {
    let bytes = include_bytes!("../fidelity/vectors.f32");
    let values: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    values.chunks(WIDTH).map(<[f32]>::to_vec).collect()
}

fn encoder() -> &'static TextEncoder {
    static ENCODER: OnceLock<TextEncoder> = OnceLock::new();
    ENCODER.get_or_init(|| load(minilm(), &EncoderOptions::default()))
}

fn encode(texts: &[String]) -> Vec<Vec<f32>> {
    encoder()
        .encode(texts, None)
        .unwrap()
        .rows()
        .map(<[f32]>::to_vec)
        .collect()
}

#[test]
fn every_vector_equals_that_of_sentence_transformers() {
    let (texts, reference) = (texts(), reference());
    assert!(texts.len() >= 60 && texts.len() == reference.len());
    let (mut cosine_min, mut difference_max) = (1.0_f64, 0.0_f32);
    for ((text, actual), expected) in texts.iter().zip(encode(&texts)).zip(&reference) {
        let start: String = text.chars().take(40).collect();
        let (cosine, difference) = (
            cosine(&actual, expected),
            largest_difference(&actual, expected),
        );
        assert!(cosine >= 0.999_999, "{start:?}: cosine {cosine}");
        assert!(difference <= 1e-5, "{start:?}: difference {difference}");
        cosine_min = cosine_min.min(cosine);
        difference_max = difference_max.max(difference);
    }
    println!("lowest cosine {cosine_min:.9}, largest difference {difference_max:.2e}");
}

#[test]
fn a_vector_is_the_same_alone_and_in_any_batch() {
    let texts = texts();
    let together = encode(&texts);
    let mut reversed: Vec<String> = texts.clone();
    reversed.reverse();
    let mut backwards = encode(&reversed);
    backwards.reverse();
    let mut difference_max = 0.0_f32;
    for (number, text) in texts.iter().enumerate() {
        let alone = encode(std::slice::from_ref(text));
        // Next to a text that is a little longer, so that an engine that pads would pad and mask.
        let beside_another = encode(&[format!("{text} and"), text.clone()]);
        for other in [&together[number], &backwards[number], &beside_another[1]] {
            difference_max = difference_max.max(largest_difference(&alone[0], other));
        }
    }
    assert!(difference_max <= 1e-6, "{difference_max:e}");
    println!("largest difference between batches {difference_max:.2e}");
}

#[test]
fn many_texts_come_back_in_their_order() {
    let texts: Vec<String> = (0..1500)
        .map(|n| format!("{n} {}", "word ".repeat(n % 3)))
        .collect();
    let together = encode(&texts);
    for number in [0, 1, 700, 1023, 1024, 1499] {
        let alone = encode(&texts[number..=number]);
        assert!(
            largest_difference(&alone[0], &together[number]) <= 1e-6,
            "text {number}"
        );
    }
}
