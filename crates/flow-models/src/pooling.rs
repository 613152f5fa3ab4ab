//! The pooling head: turns the hidden states of a text's tokens into one vector, as sentence-transformers does
//! (Reimers and Gurevych, 2019).

use std::fmt;

use serde::Deserialize;

use crate::tokens::{HiddenStates, TokenBatch};

/// Minimum divisor in a normalization, as in PyTorch's `normalize`.
const NORM_MIN: f32 = 1e-12;

/// How the hidden states of a text become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolingMode {
    /// The state of the first token.
    Cls,
    /// The mean of all states.
    Mean,
    /// The maximum of each value.
    Max,
    /// The minimum of each value.
    Min,
    /// The sum of all states, divided by the square root of their number.
    #[serde(alias = "mean_sqrt_len_tokens")]
    MeanSqrtLen,
    /// The mean, weighted by the position of each token.
    #[serde(rename = "weightedmean")]
    WeightedMean,
    /// The state of the last token.
    #[serde(rename = "lasttoken")]
    LastToken,
}

impl fmt::Display for PoolingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cls => "cls",
            Self::Mean => "mean",
            Self::Max => "max",
            Self::Min => "min",
            Self::MeanSqrtLen => "mean_sqrt_len",
            Self::WeightedMean => "weightedmean",
            Self::LastToken => "lasttoken",
        })
    }
}

/// How a model's authors pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolingConfig {
    /// Modes whose results are concatenated.
    pub modes: Vec<PoolingMode>,
    /// Whether the tokens of the prompt are pooled.
    pub includes_prompt: bool,
}

impl Default for PoolingConfig {
    fn default() -> Self {
        Self {
            modes: vec![PoolingMode::Mean],
            includes_prompt: true,
        }
    }
}

/// Turns hidden states into vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolingHead {
    /// Modes whose results are concatenated.
    pub modes: Vec<PoolingMode>,
    /// Number of leading tokens of each text that are not pooled.
    pub skipped_tokens: usize,
    /// Number of leading values to keep of the concatenated result.
    pub width: usize,
    /// Whether vectors are normalized to length 1.
    pub normalize: bool,
}

impl PoolingHead {
    /// The vectors of a batch's texts: a row-major matrix of `texts × width`.
    #[must_use]
    pub fn vectors(&self, batch: &TokenBatch, states: &HiddenStates) -> Vec<f32> {
        let mut vectors = Vec::with_capacity(batch.lengths.len() * self.width);
        for (text, &length) in batch.lengths.iter().enumerate() {
            vectors.extend(self.vector(&states.of_text(text, length)));
        }
        vectors
    }

    fn vector<'a>(
        &self,
        states: &(impl DoubleEndedIterator<Item = &'a [f32]> + Clone),
    ) -> Vec<f32> {
        let mut vector = Vec::new();
        for &mode in &self.modes {
            pool(mode, states.clone(), self.skipped_tokens, &mut vector);
        }
        vector.truncate(self.width);
        if self.normalize {
            normalize(&mut vector);
        }
        vector
    }
}

/// Pools all but the first `skipped` states, and appends the result to `vector`.
fn pool<'a>(
    mode: PoolingMode,
    states: impl DoubleEndedIterator<Item = &'a [f32]> + Clone,
    skipped: usize,
    vector: &mut Vec<f32>,
) {
    let pooled = states.clone().skip(skipped);
    let count = pooled.clone().count() as f32;
    let width = states.clone().next().map_or(0, <[f32]>::len);
    let start = vector.len();
    let fill = match mode {
        PoolingMode::Max => f32::NEG_INFINITY,
        PoolingMode::Min => f32::INFINITY,
        _ => 0.0,
    };
    vector.resize(start + width, fill);
    let vector = &mut vector[start..];
    match mode {
        PoolingMode::Cls => vector.copy_from_slice(first(pooled).or(first(states)).unwrap_or(&[])),
        PoolingMode::LastToken => vector.copy_from_slice(first(states.rev()).unwrap_or(&[])),
        PoolingMode::Max => fold(vector, pooled, f32::max),
        PoolingMode::Min => fold(vector, pooled, f32::min),
        PoolingMode::Mean => {
            fold(vector, pooled, |sum, value| sum + value);
            divide(vector, count);
        }
        PoolingMode::MeanSqrtLen => {
            fold(vector, pooled, |sum, value| sum + value);
            divide(vector, count.sqrt());
        }
        PoolingMode::WeightedMean => {
            let mut total_weight = 0.0;
            for (position, state) in states.enumerate().skip(skipped) {
                let weight = (position + 1) as f32;
                total_weight += weight;
                fold(vector, std::iter::once(state), |sum, value| {
                    sum + weight * value
                });
            }
            divide(vector, total_weight);
        }
    }
}

/// Normalizes a vector to length 1, so that a dot product is a cosine.
fn normalize(vector: &mut [f32]) {
    // In f64, so that rounding does not depend on how the compiler vectorizes the sum.
    let squares: f64 = vector
        .iter()
        .map(|&value| f64::from(value) * f64::from(value))
        .sum();
    divide(vector, (squares.sqrt() as f32).max(NORM_MIN));
}

fn first<'a>(mut states: impl Iterator<Item = &'a [f32]>) -> Option<&'a [f32]> {
    states.next()
}

fn fold<'a>(
    vector: &mut [f32],
    states: impl Iterator<Item = &'a [f32]>,
    step: impl Fn(f32, f32) -> f32,
) {
    for state in states {
        for (result, &value) in vector.iter_mut().zip(state) {
            *result = step(*result, value);
        }
    }
}

/// Divides each value. The divisor is zero for a text without pooled tokens, whose vector stays zero.
fn divide(vector: &mut [f32], divisor: f32) {
    if divisor > 0.0 {
        vector.iter_mut().for_each(|value| *value /= divisor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [[f32; 2]; 3] = [[1.0, -1.0], [2.0, 4.0], [6.0, 0.0]];

    fn check(mode: PoolingMode, skipped: usize, expected: [f32; 2]) {
        let mut vector = Vec::new();
        pool(
            mode,
            STATES.iter().map(|state| &state[..]),
            skipped,
            &mut vector,
        );
        for (actual, expected) in vector.iter().zip(expected) {
            assert!(
                (actual - expected).abs() < 1e-6,
                "{mode:?}: {vector:?}, expected {expected:?}"
            );
        }
    }

    #[test]
    fn each_mode_equals_that_of_sentence_transformers() {
        check(PoolingMode::Cls, 0, [1.0, -1.0]);
        check(PoolingMode::LastToken, 0, [6.0, 0.0]);
        check(PoolingMode::Mean, 0, [3.0, 1.0]);
        check(PoolingMode::Max, 0, [6.0, 4.0]);
        check(PoolingMode::Min, 0, [1.0, -1.0]);
        check(
            PoolingMode::MeanSqrtLen,
            0,
            [9.0 / 3f32.sqrt(), 3.0 / 3f32.sqrt()],
        );
        check(PoolingMode::WeightedMean, 0, [23.0 / 6.0, 7.0 / 6.0]);
    }

    #[test]
    fn skipped_tokens_are_not_pooled() {
        check(PoolingMode::Cls, 1, [2.0, 4.0]);
        check(PoolingMode::Mean, 1, [4.0, 2.0]);
        check(PoolingMode::Max, 2, [6.0, 0.0]);
        check(PoolingMode::WeightedMean, 1, [22.0 / 5.0, 8.0 / 5.0]);
    }

    #[test]
    fn results_of_several_modes_are_concatenated() {
        let mut vector = Vec::new();
        for mode in [PoolingMode::Cls, PoolingMode::Max] {
            pool(mode, STATES.iter().map(|state| &state[..]), 0, &mut vector);
        }
        assert_eq!(vector, [1.0, -1.0, 6.0, 4.0]);
    }

    #[test]
    fn a_normalized_vector_has_length_one_unless_it_is_zero() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut zero = [0.0, 0.0];
        normalize(&mut zero);
        assert_eq!(zero, [0.0, 0.0]);
    }
}
