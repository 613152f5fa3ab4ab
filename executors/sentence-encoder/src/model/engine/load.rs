//! From a file of weights to an [`Engine`]: each tensor is read, packed and dropped.

use flow_kernels::{Activation, Kernels, Product};

use super::embeddings::Embeddings;
use super::{Alone, Engine, Heads, Layer, Norm};
use crate::model::Size;
use crate::model::layout::{self, Layout, Part};
use crate::model::weights::{Weights, WeightsError};

/// Distances beyond this one share a bucket (MPNet's own number).
const DISTANCE_MAX: f32 = 128.0;

impl Engine {
    /// Loads weights that have been checked against `layout`.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(in crate::model) fn load(
        layout: &Layout,
        weights: &Weights,
        kernels: Kernels,
    ) -> Result<Self, WeightsError> {
        let reader = Reader {
            layout,
            weights,
            kernels,
            prefix: layout.prefix(weights),
        };
        let layers = (0..layout.layers).map(|layer| reader.layer(layer));
        Ok(Self {
            kernels,
            heads: reader.heads()?,
            size: Size {
                hidden: layout.hidden,
                inner: layout.inner,
                layers: layout.layers,
            },
            positions: layout.positions(),
            embeddings: reader.embeddings()?,
            layers: layers.collect::<Result<_, _>>()?,
            pieces: std::sync::Mutex::default(),
            alone: Alone::default(),
        })
    }
}

struct Reader<'a> {
    layout: &'a Layout,
    weights: &'a Weights,
    kernels: Kernels,
    prefix: &'static str,
}

impl Reader<'_> {
    fn read(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        self.weights.read(&format!("{}{name}", self.prefix))
    }

    fn embeddings(&self) -> Result<Embeddings, WeightsError> {
        let layout = self.layout;
        let segments = match layout.segments {
            0 => vec![0.0; layout.hidden],
            _ => self.read(layout::SEGMENTS)?,
        };
        let positions = self.read(layout::POSITIONS)?;
        // One text at a time has one segment, whose number is 0.
        let add = |row: &[f32]| row.iter().zip(&segments).map(|(a, b)| a + b).collect();
        let rows = positions.chunks_exact(layout.hidden);
        let rows: Vec<Vec<f32>> = rows.skip(layout.first_position).map(add).collect();
        let norm = self.norm(layout::EMBEDDINGS_NORM)?;
        let words = self.read(layout::WORDS)?;
        Ok(Embeddings::new(self.kernels.format(), words, &rows, norm))
    }

    fn heads(&self) -> Result<Heads, WeightsError> {
        let (layout, span) = (self.layout, self.layout.positions());
        let distances = match layout.buckets {
            0 => None,
            buckets => Some(by_distance(&self.read(layout::DISTANCES)?, buckets, span)),
        };
        Ok(Heads {
            count: layout.heads,
            width: layout.hidden / layout.heads,
            distances,
            span,
        })
    }

    fn layer(&self, layer: usize) -> Result<Layer, WeightsError> {
        let name = |part| self.layout.name(layer, part);
        let product = |part, activation| self.product(&name(part), activation);
        Ok(Layer {
            heads: self.attention(layer)?,
            out: product(Part::Out, Activation::None)?,
            out_norm: self.norm(&name(Part::OutNorm))?,
            up: product(Part::Up, self.layout.activation)?,
            down: product(Part::Down, Activation::None)?,
            down_norm: self.norm(&name(Part::DownNorm))?,
        })
    }

    /// Three layers as one, head after head.
    fn attention(&self, layer: usize) -> Result<Product, WeightsError> {
        let hidden = self.layout.hidden;
        let width = hidden / self.layout.heads;
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for part in [Part::Query, Part::Key, Part::Value] {
            let name = self.layout.name(layer, part);
            weights.push(self.read(&format!("{name}.weight"))?);
            bias.push(self.read(&format!("{name}.bias"))?);
        }
        let weights = by_head(&weights, width * hidden);
        let weights = self.kernels.pack(&weights, hidden);
        Ok(Product::new(
            weights,
            &by_head(&bias, width),
            Activation::None,
        ))
    }

    fn product(&self, name: &str, activation: Activation) -> Result<Product, WeightsError> {
        let weights = self.read(&format!("{name}.weight"))?;
        let bias = self.read(&format!("{name}.bias"))?;
        let weights = self.kernels.pack(&weights, weights.len() / bias.len());
        Ok(Product::new(weights, &bias, activation))
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
            epsilon: self.layout.epsilon,
        })
    }

    fn norm_part(&self, name: &str, part: &str) -> Result<Vec<f32>, WeightsError> {
        let name = format!("{}{name}.{part}", self.prefix);
        self.weights.check(&name, &[self.layout.hidden])?;
        self.weights.read(&name)
    }
}

/// Query, key and value of the first head, then those of the second, and so on; `each` values are one
/// head's part of one of the three.
fn by_head(parts: &[Vec<f32>], each: usize) -> Vec<f32> {
    let heads = parts[0].len() / each;
    let of = |head: usize| parts.iter().map(move |part| &part[head * each..][..each]);
    (0..heads).flat_map(of).flatten().copied().collect()
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
    fn heads_follow_each_other_with_all_their_parts() {
        let parts = [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
        assert_eq!(by_head(&parts, 1), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    }

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
