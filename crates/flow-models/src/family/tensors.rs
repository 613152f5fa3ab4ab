//! A family's tensors by what they are for, whatever they are called in its files.

use super::layout::{self, Layout, Part};
use crate::weights::{Weights, WeightsError};

/// Distances beyond this one share a bucket (MPNet's own number).
const DISTANCE_MAX: f32 = 128.0;

/// Weights that have been checked against their layout.
pub(crate) struct Tensors<'a> {
    pub(crate) layout: &'a Layout,
    weights: &'a Weights,
    prefix: &'static str,
}

/// A linear layer: a row for each value that comes out, and what is added to each.
pub(crate) struct Linear {
    pub(crate) weights: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// A layer norm.
pub(crate) struct Norm {
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

impl<'a> Tensors<'a> {
    pub(crate) fn of(layout: &'a Layout, weights: &'a Weights) -> Self {
        Self {
            layout,
            weights,
            prefix: layout.prefix(weights),
        }
    }

    /// A row for each word.
    pub(crate) fn words(&self) -> Result<Vec<f32>, WeightsError> {
        self.read(layout::WORDS)
    }

    /// A row for each place in a text, the one segment's embedding included.
    pub(crate) fn positions(&self) -> Result<Vec<f32>, WeightsError> {
        let layout = self.layout;
        let segments = match layout.segments {
            0 => vec![0.0; layout.hidden],
            _ => self.read(layout::SEGMENTS)?,
        };
        let mut positions = self.read(layout::POSITIONS)?;
        positions.drain(..layout.first_position * layout.hidden);
        // One text at a time has one segment, whose number is 0.
        for row in positions.chunks_exact_mut(layout.hidden) {
            row.iter_mut().zip(&segments).for_each(|(a, b)| *a += b);
        }
        Ok(positions)
    }

    /// What is added for each head and each distance from a query to a key, from the longest back to the longest
    /// forth; if anything.
    pub(crate) fn distances(&self) -> Result<Option<Vec<f32>>, WeightsError> {
        let span = self.layout.positions();
        Ok(match self.layout.buckets {
            0 => None,
            buckets => Some(by_distance(&self.read(layout::DISTANCES)?, buckets, span)),
        })
    }

    pub(crate) fn linear(&self, layer: usize, part: Part) -> Result<Linear, WeightsError> {
        let name = self.layout.name(layer, part);
        Ok(Linear {
            weights: self.read(&format!("{name}.weight"))?,
            bias: self.read(&format!("{name}.bias"))?,
        })
    }

    /// Those of queries, of keys and of values.
    pub(crate) fn heads(&self, layer: usize) -> Result<[Linear; 3], WeightsError> {
        Ok([
            self.linear(layer, Part::Query)?,
            self.linear(layer, Part::Key)?,
            self.linear(layer, Part::Value)?,
        ])
    }

    pub(crate) fn layer_norm(&self, layer: usize, part: Part) -> Result<Norm, WeightsError> {
        self.norm(&self.layout.name(layer, part))
    }

    pub(crate) fn embeddings_norm(&self) -> Result<Norm, WeightsError> {
        self.norm(layout::EMBEDDINGS_NORM)
    }

    fn read(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        self.weights.read(&format!("{}{name}", self.prefix))
    }

    fn norm(&self, name: &str) -> Result<Norm, WeightsError> {
        // Checkpoints from TensorFlow's days have its names.
        let old = format!("{}{name}.gamma", self.prefix);
        let (scale, shift) = if self.weights.contains(&old) {
            ("gamma", "beta")
        } else {
            ("weight", "bias")
        };
        Ok(Norm {
            scale: self.norm_part(name, scale)?,
            shift: self.norm_part(name, shift)?,
        })
    }

    fn norm_part(&self, name: &str, part: &str) -> Result<Vec<f32>, WeightsError> {
        let name = format!("{}{name}.{part}", self.prefix);
        self.weights.check(&name, &[self.layout.hidden])?;
        self.weights.read(&name)
    }
}

/// What MPNet's table says of each head and each distance from a query to a key.
fn by_distance(table: &[f32], buckets: usize, span: usize) -> Vec<f32> {
    let heads = table.len() / buckets;
    let distances = || 0..2 * span - 1;
    let value = |head: usize, at: usize| {
        let distance = at as i64 - (span as i64 - 1);
        table[bucket(distance, buckets) * heads + head]
    };
    (0..heads)
        .flat_map(|head| distances().map(move |at| value(head, at)))
        .collect()
}

/// Near distances have a bucket each, far ones share some by their logarithm; keys after the query have
/// the upper half of the buckets.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a logarithm of something at least 1, by definition cut to a whole number"
)]
fn bucket(distance: i64, buckets: usize) -> usize {
    let half = buckets / 2;
    let start = if distance > 0 { half } else { 0 };
    let steps = usize::try_from(distance.unsigned_abs()).unwrap_or(usize::MAX);
    let near = half / 2;
    if steps < near {
        return start + steps;
    }
    let far = (steps as f32 / near as f32).ln() / (DISTANCE_MAX / near as f32).ln();
    start + (near + (far * (half - near) as f32) as usize).min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_put_into_the_buckets_of_transformers() {
        // From MPNetEncoder.relative_position_bucket of transformers, with its 32 buckets.
        for (distance, wanted) in [
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
            assert_eq!(bucket(distance, 32), wanted, "{distance}");
        }
    }
}
