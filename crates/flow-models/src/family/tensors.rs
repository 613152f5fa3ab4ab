//! Reads a model's tensors by their role, whatever their names are in its files.

use super::architecture::{self as names, Architecture, LayerPart};
use crate::weights::{WeightsError, WeightsFile};

/// All longer distances share a bucket. MPNet fixes this number.
const DISTANCE_MAX: f32 = 128.0;

/// Weights that have been checked against their architecture.
pub(crate) struct ModelTensors<'a> {
    pub(crate) architecture: &'a Architecture,
    weights: &'a WeightsFile,
    prefix: &'static str,
}

/// The tensors of a linear layer.
pub(crate) struct LinearTensors {
    /// A row-major matrix of `outputs × inputs`.
    pub(crate) weights: Vec<f32>,
    /// One value per output.
    pub(crate) bias: Vec<f32>,
}

/// The tensors of a head for masked words.
pub(crate) struct MaskedLmTensors {
    /// The first layer: `hidden_size × hidden_size`.
    pub(crate) transform: LinearTensors,
    /// The layer norm after it.
    pub(crate) norm: LayerNormTensors,
    /// The second layer: `vocab_size × hidden_size`.
    pub(crate) words: LinearTensors,
}

/// The tensors of a layer norm.
#[derive(Debug)]
pub(crate) struct LayerNormTensors {
    /// Factor of each normalized value.
    pub(crate) scale: Vec<f32>,
    /// Added to each scaled value.
    pub(crate) shift: Vec<f32>,
}

impl<'a> ModelTensors<'a> {
    /// The weights must have passed [`Architecture::check`].
    pub(crate) fn new(architecture: &'a Architecture, weights: &'a WeightsFile) -> Self {
        Self {
            architecture,
            weights,
            prefix: architecture.prefix(weights),
        }
    }

    /// The word embeddings: `vocab_size × hidden_size`.
    pub(crate) fn word_embeddings(&self) -> Result<Vec<f32>, WeightsError> {
        self.read(names::WORD_EMBEDDINGS)
    }

    /// The position embeddings of a text, with the token type embedding added: `max_tokens × hidden_size`.
    pub(crate) fn position_embeddings(&self) -> Result<Vec<f32>, WeightsError> {
        let architecture = self.architecture;
        let token_types = match architecture.token_types {
            0 => vec![0.0; architecture.hidden_size],
            _ => self.read(names::TOKEN_TYPE_EMBEDDINGS)?,
        };
        let mut positions = self.read(names::POSITION_EMBEDDINGS)?;
        positions.drain(..architecture.first_position * architecture.hidden_size);
        // All tokens of a single text have type 0.
        for row in positions.chunks_exact_mut(architecture.hidden_size) {
            row.iter_mut().zip(&token_types).for_each(|(a, b)| *a += b);
        }
        Ok(positions)
    }

    /// The embedding of token type 1, that of the second text of a pair, minus that of type 0. `None` if the model does not tell
    /// the texts of a pair apart.
    pub(crate) fn second_token_type(&self) -> Result<Option<Vec<f32>>, WeightsError> {
        let hidden = self.architecture.hidden_size;
        if self.architecture.token_types < 2 {
            return Ok(None);
        }
        let types = self.read(names::TOKEN_TYPE_EMBEDDINGS)?;
        let (first, second) = types[..2 * hidden].split_at(hidden);
        let differences = second
            .iter()
            .zip(first)
            .map(|(second, first)| second - first);
        Ok(Some(differences.collect()))
    }

    /// The linear layers of the classification head.
    pub(crate) fn classification(&self) -> Result<[LinearTensors; 2], WeightsError> {
        let read = |name: &str| {
            Ok(LinearTensors {
                weights: self.weights.read(&format!("{name}.weight"))?,
                bias: self.weights.read(&format!("{name}.bias"))?,
            })
        };
        let [hidden, labels] = self.architecture.family.classification();
        Ok([read(hidden)?, read(labels)?])
    }

    /// The head for masked words, whose shapes are checked here.
    pub(crate) fn masked_lm(&self) -> Result<MaskedLmTensors, WeightsError> {
        let names = self.architecture.family.masked_lm();
        let (hidden, vocabulary) = (self.architecture.hidden_size, self.architecture.vocab_size);
        let read = |name: &str, shape: &[usize]| {
            self.weights.check(name, shape)?;
            self.weights.read(name)
        };
        let transform = LinearTensors {
            weights: read(&format!("{}.weight", names.transform), &[hidden, hidden])?,
            bias: read(&format!("{}.bias", names.transform), &[hidden])?,
        };
        let has_words = self.weights.contains(names.words);
        let words = LinearTensors {
            weights: match has_words {
                true => read(names.words, &[vocabulary, hidden])?,
                false => self.word_embeddings()?,
            },
            bias: read(names.bias, &[vocabulary])?,
        };
        Ok(MaskedLmTensors {
            transform,
            norm: self.norm_of(names.norm)?,
            words,
        })
    }

    /// The relative position bias, if the model has one: for each head, a value for each distance from a query to a key,
    /// from `1 - max_tokens` to `max_tokens - 1`.
    pub(crate) fn position_bias(&self) -> Result<Option<Vec<f32>>, WeightsError> {
        let max_tokens = self.architecture.max_tokens();
        Ok(match self.architecture.position_buckets {
            0 => None,
            buckets => {
                let table = self.read(names::POSITION_BIAS)?;
                Some(bias_by_distance(&table, buckets, max_tokens))
            }
        })
    }

    /// A linear layer of a transformer layer.
    pub(crate) fn linear(
        &self,
        layer: usize,
        part: LayerPart,
    ) -> Result<LinearTensors, WeightsError> {
        let name = self.architecture.part_name(layer, part);
        Ok(LinearTensors {
            weights: self.read(&format!("{name}.weight"))?,
            bias: self.read(&format!("{name}.bias"))?,
        })
    }

    /// The linear layers of queries, keys and values.
    pub(crate) fn qkv(&self, layer: usize) -> Result<[LinearTensors; 3], WeightsError> {
        Ok([
            self.linear(layer, LayerPart::Query)?,
            self.linear(layer, LayerPart::Key)?,
            self.linear(layer, LayerPart::Value)?,
        ])
    }

    /// A layer norm of a transformer layer.
    pub(crate) fn layer_norm(
        &self,
        layer: usize,
        part: LayerPart,
    ) -> Result<LayerNormTensors, WeightsError> {
        self.norm(&self.architecture.part_name(layer, part))
    }

    /// The layer norm of the embeddings.
    pub(crate) fn embeddings_norm(&self) -> Result<LayerNormTensors, WeightsError> {
        self.norm(names::EMBEDDINGS_NORM)
    }

    fn read(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        self.weights.read(&format!("{}{name}", self.prefix))
    }

    fn norm(&self, name: &str) -> Result<LayerNormTensors, WeightsError> {
        self.norm_of(&format!("{}{name}", self.prefix))
    }

    /// A layer norm by its whole name.
    fn norm_of(&self, name: &str) -> Result<LayerNormTensors, WeightsError> {
        // Checkpoints converted from TensorFlow use its names.
        let gamma = format!("{name}.gamma");
        let (scale, shift) = if self.weights.contains(&gamma) {
            ("gamma", "beta")
        } else {
            ("weight", "bias")
        };
        Ok(LayerNormTensors {
            scale: self.norm_tensor(name, scale)?,
            shift: self.norm_tensor(name, shift)?,
        })
    }

    fn norm_tensor(&self, name: &str, part: &str) -> Result<Vec<f32>, WeightsError> {
        let name = format!("{name}.{part}");
        self.weights
            .check(&name, &[self.architecture.hidden_size])?;
        self.weights.read(&name)
    }
}

/// Expands a table of `buckets × heads` to a value for each head and each distance.
fn bias_by_distance(table: &[f32], buckets: usize, max_tokens: usize) -> Vec<f32> {
    let heads = table.len() / buckets;
    let distances = || 0..2 * max_tokens - 1;
    let value = |head: usize, index: usize| {
        let distance = index as i64 - (max_tokens as i64 - 1);
        table[bucket(distance, buckets) * heads + head]
    };
    (0..heads)
        .flat_map(|head| distances().map(move |index| value(head, index)))
        .collect()
}

/// The bucket of a distance from a query to a key, as in T5 (Raffel et al., 2020): short distances have a bucket each, long
/// ones share buckets by their logarithm, and keys after the query have the upper half of the buckets.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm of a number of at least 1, which the definition truncates"
)]
fn bucket(distance: i64, buckets: usize) -> usize {
    let half = buckets / 2;
    let start = if distance > 0 { half } else { 0 };
    let steps = usize::try_from(distance.unsigned_abs()).unwrap_or(usize::MAX);
    let exact = half / 2;
    if steps < exact {
        return start + steps;
    }
    let position = (steps as f32 / exact as f32).ln() / (DISTANCE_MAX / exact as f32).ln();
    start + (exact + (position * (half - exact) as f32) as usize).min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_equal_those_of_the_transformers_library() {
        // From MPNetEncoder.relative_position_bucket of transformers, with its 32 buckets.
        for (distance, expected) in [
            (0, 0),
            (-1, 1),
            (-7, 7),
            (-8, 8),
            (-9, 8),
            (-20, 10),
            (-127, 15),
            (-500, 15),
            (1, 17),
            (7, 23),
            (8, 24),
            (20, 26),
            (200, 31),
        ] {
            assert_eq!(bucket(distance, 32), expected, "{distance}");
        }
    }
}
