//! From a file of weights to an [`Engine`]: each tensor is read, packed and dropped.

use flow_kernels::{self as kernels, Activation, Kernels};

use super::embeddings::Embeddings;
use super::{Alone, Engine, Heads, Layer, Norm};
use crate::engine::Size;
use crate::family::{self, Linear, Part, Tensors};
use crate::weights::WeightsError;

impl Engine {
    /// Loads a model's tensors.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(in crate::engine) fn load(
        tensors: &Tensors<'_>,
        kernels: Kernels,
    ) -> Result<Self, WeightsError> {
        let layout = tensors.layout;
        let reader = Reader { tensors, kernels };
        let layers = (0..layout.layers).map(|layer| reader.layer(layer));
        Ok(Self {
            kernels,
            heads: reader.heads()?,
            size: Size::of(layout),
            positions: layout.positions(),
            embeddings: reader.embeddings()?,
            layers: layers.collect::<Result<_, _>>()?,
            pieces: std::sync::Mutex::default(),
            alone: Alone::default(),
        })
    }
}

struct Reader<'a> {
    tensors: &'a Tensors<'a>,
    kernels: Kernels,
}

impl Reader<'_> {
    fn embeddings(&self) -> Result<Embeddings, WeightsError> {
        let positions = self.tensors.positions()?;
        let rows = positions.chunks_exact(self.tensors.layout.hidden);
        let rows: Vec<Vec<f32>> = rows.map(<[f32]>::to_vec).collect();
        let norm = self.norm(self.tensors.embeddings_norm()?);
        let words = self.tensors.words()?;
        Ok(Embeddings::new(self.kernels.precision(), words, &rows, norm))
    }

    fn heads(&self) -> Result<Heads, WeightsError> {
        let layout = self.tensors.layout;
        Ok(Heads {
            count: layout.heads,
            width: layout.hidden / layout.heads,
            distances: self.tensors.distances()?,
            span: layout.positions(),
        })
    }

    fn layer(&self, layer: usize) -> Result<Layer, WeightsError> {
        let product = |part, activation| {
            let linear = self.tensors.linear(layer, part)?;
            Ok(self.product(&linear, activation))
        };
        let norm = |part| Ok(self.norm(self.tensors.layer_norm(layer, part)?));
        Ok(Layer {
            heads: self.attention(layer)?,
            out: product(Part::Out, Activation::None)?,
            out_norm: norm(Part::OutNorm)?,
            up: product(Part::Up, self.tensors.layout.activation)?,
            down: product(Part::Down, Activation::None)?,
            down_norm: norm(Part::DownNorm)?,
        })
    }

    /// Three layers as one, head after head.
    fn attention(&self, layer: usize) -> Result<kernels::Linear, WeightsError> {
        let hidden = self.tensors.layout.hidden;
        let width = hidden / self.tensors.layout.heads;
        let parts = self.tensors.heads(layer)?;
        let weights = parts.each_ref().map(|part| &part.weights[..]);
        let bias = parts.each_ref().map(|part| &part.bias[..]);
        let linear = Linear {
            weights: by_head(&weights, width * hidden),
            bias: by_head(&bias, width),
        };
        Ok(self.product(&linear, Activation::None))
    }

    fn product(&self, linear: &Linear, activation: Activation) -> kernels::Linear {
        let Linear { weights, bias } = linear;
        let weights = self.kernels.pack(weights, weights.len() / bias.len());
        kernels::Linear::new(weights, bias, activation)
    }

    fn norm(&self, norm: family::Norm) -> Norm {
        Norm {
            scale: norm.scale,
            shift: norm.shift,
            epsilon: self.tensors.layout.epsilon,
        }
    }
}

/// Query, key and value of the first head, then those of the second, and so on; `each` values are one
/// head's part of one of the three.
fn by_head(parts: &[&[f32]; 3], each: usize) -> Vec<f32> {
    let heads = parts[0].len() / each;
    let of = |head: usize| parts.iter().map(move |part| &part[head * each..][..each]);
    (0..heads).flat_map(of).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_follow_each_other_with_all_their_parts() {
        let parts: [&[f32]; 3] = [&[1.0, 2.0], &[3.0, 4.0], &[5.0, 6.0]];
        assert_eq!(by_head(&parts, 1), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    }
}
