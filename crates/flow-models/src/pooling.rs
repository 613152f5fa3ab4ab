//! From one state for each token to one vector for the text, as sentence-transformers does it.

use serde::Deserialize;

use crate::engine::{States, TokenBatch};

/// What keeps a division by a vector's length from failing; the same as in PyTorch.
const LENGTH_MIN: f32 = 1e-12;

/// A way to make one vector of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolingMode {
    /// The first token's state.
    Cls,
    /// The mean of all.
    Mean,
    /// The largest of each value.
    Max,
    /// The smallest of each value.
    Min,
    /// Their sum, divided by the square root of their number.
    #[serde(alias = "mean_sqrt_len_tokens")]
    MeanSqrtLen,
    /// The mean, where later tokens weigh more.
    #[serde(rename = "weightedmean")]
    WeightedMean,
    /// The last token's state.
    #[serde(rename = "lasttoken")]
    LastToken,
}

/// How the states of a text become its vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pooling {
    /// What each way gives is put one after the other.
    pub modes: Vec<PoolingMode>,
    /// Whether the tokens of the prompt count.
    pub includes_prompt: bool,
}

impl Default for Pooling {
    fn default() -> Self {
        Self {
            modes: vec![PoolingMode::Mean],
            includes_prompt: true,
        }
    }
}

/// All that there is to say about how states become vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What each way gives is put one after the other.
    pub modes: Vec<PoolingMode>,
    /// Tokens at each text's start that do not count.
    pub skipped: usize,
    /// Values that are kept of all.
    pub width: usize,
    /// Whether vectors get the length 1.
    pub normalize: bool,
}

impl Rule {
    /// The vectors of a batch's texts, one after the other.
    pub(crate) fn vectors(&self, batch: &TokenBatch, states: &States) -> Vec<f32> {
        let mut vectors = Vec::with_capacity(batch.lengths.len() * self.width);
        for (text, &length) in batch.lengths.iter().enumerate() {
            vectors.extend(self.vector(&states.of(text, length)));
        }
        vectors
    }

    fn vector<'a>(
        &self,
        states: &(impl DoubleEndedIterator<Item = &'a [f32]> + Clone),
    ) -> Vec<f32> {
        let mut vector = Vec::new();
        for &mode in &self.modes {
            pool(mode, states.clone(), self.skipped, &mut vector);
        }
        vector.truncate(self.width);
        if self.normalize {
            normalize(&mut vector);
        }
        vector
    }
}

/// Adds to `vector` what `mode` makes of `states`, leaving out the first `skipped`.
fn pool<'a>(
    mode: PoolingMode,
    states: impl DoubleEndedIterator<Item = &'a [f32]> + Clone,
    skipped: usize,
    vector: &mut Vec<f32>,
) {
    let counted = states.clone().skip(skipped);
    let count = counted.clone().count() as f32;
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
        PoolingMode::Cls => vector.copy_from_slice(first(counted).or(first(states)).unwrap_or(&[])),
        PoolingMode::LastToken => vector.copy_from_slice(first(states.rev()).unwrap_or(&[])),
        PoolingMode::Max => fold(vector, counted, f32::max),
        PoolingMode::Min => fold(vector, counted, f32::min),
        PoolingMode::Mean => {
            fold(vector, counted, |sum, value| sum + value);
            divide(vector, count);
        }
        PoolingMode::MeanSqrtLen => {
            fold(vector, counted, |sum, value| sum + value);
            divide(vector, count.sqrt());
        }
        PoolingMode::WeightedMean => {
            let mut weights = 0.0;
            for (position, state) in states.enumerate().skip(skipped) {
                let weight = (position + 1) as f32;
                weights += weight;
                fold(vector, std::iter::once(state), |sum, value| {
                    sum + weight * value
                });
            }
            divide(vector, weights);
        }
    }
}

/// Gives a vector the length 1, so that a scalar product is a cosine.
fn normalize(vector: &mut [f32]) {
    // In f64, so that the sum's rounding does not depend on how it is vectorised.
    let squares: f64 = vector
        .iter()
        .map(|&value| f64::from(value) * f64::from(value))
        .sum();
    divide(vector, (squares.sqrt() as f32).max(LENGTH_MIN));
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
        for (so_far, &value) in vector.iter_mut().zip(state) {
            *so_far = step(*so_far, value);
        }
    }
}

/// A text of which nothing counts has nothing to divide.
fn divide(vector: &mut [f32], by: f32) {
    if by > 0.0 {
        vector.iter_mut().for_each(|value| *value /= by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [[f32; 2]; 3] = [[1.0, -1.0], [2.0, 4.0], [6.0, 0.0]];

    fn check(mode: PoolingMode, skipped: usize, wanted: [f32; 2]) {
        let mut vector = Vec::new();
        pool(
            mode,
            STATES.iter().map(|state| &state[..]),
            skipped,
            &mut vector,
        );
        for (got, wanted) in vector.iter().zip(wanted) {
            assert!(
                (got - wanted).abs() < 1e-6,
                "{mode:?}: {vector:?}, wanted {wanted:?}"
            );
        }
    }

    #[test]
    fn each_mode_is_what_sentence_transformers_computes() {
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
    fn a_prompt_that_does_not_count_is_left_out() {
        check(PoolingMode::Cls, 1, [2.0, 4.0]);
        check(PoolingMode::Mean, 1, [4.0, 2.0]);
        check(PoolingMode::Max, 2, [6.0, 0.0]);
        check(PoolingMode::WeightedMean, 1, [22.0 / 5.0, 8.0 / 5.0]);
    }

    #[test]
    fn modes_are_put_one_after_the_other() {
        let mut vector = Vec::new();
        for mode in [PoolingMode::Cls, PoolingMode::Max] {
            pool(mode, STATES.iter().map(|state| &state[..]), 0, &mut vector);
        }
        assert_eq!(vector, [1.0, -1.0, 6.0, 4.0]);
    }

    #[test]
    fn a_normalized_vector_has_length_one_unless_it_is_nothing() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut nothing = [0.0, 0.0];
        normalize(&mut nothing);
        assert_eq!(nothing, [0.0, 0.0]);
    }
}
