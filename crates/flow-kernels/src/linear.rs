//! Cuts a product into tiles, and finishes each tile while it lies in the first cache.

use std::ops::Range;

use crate::activations::{Rows, RowsMut};
use crate::select::Format;
use crate::elementwise::Shape;
use crate::kernels::Kernels;
use crate::packed::Packed;
use crate::tile::{PANEL, ROWS_MAX, Tile};

/// Bytes of states that are multiplied by one panel after another, so that they stay in the second cache,
/// which has a megabyte or two.
const BLOCK_BYTES: usize = 384 * 1024;

/// What becomes of each sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// It stays as it is.
    #[default]
    None,
    /// GELU by the error function.
    Gelu,
    /// GELU by the hyperbolic tangent.
    GeluTanh,
    /// What is below zero becomes zero.
    Relu,
}

/// A linear layer with what follows it: activation of (states · weights + bias).
#[derive(Debug, Clone)]
pub struct Product {
    weights: Packed,
    /// Whole panels.
    bias: Vec<[f32; PANEL]>,
    activation: Activation,
}

impl Product {
    /// A layer of these weights, with a bias for each output.
    ///
    /// # Panics
    ///
    /// If there are not as many biases as outputs.
    #[must_use]
    pub fn new(weights: Packed, bias: &[f32], activation: Activation) -> Self {
        assert_eq!(bias.len(), weights.outputs(), "a bias for each output");
        let mut panels = vec![[0.0; PANEL]; weights.panels()];
        panels.as_flattened_mut()[..bias.len()].copy_from_slice(bias);
        Self {
            weights,
            bias: panels,
            activation,
        }
    }

    /// Its weights.
    #[must_use]
    pub fn weights(&self) -> &Packed {
        &self.weights
    }
}

impl Kernels {
    /// Computes the columns of `panels`, and puts them into `out` from its first column on.
    ///
    /// # Panics
    ///
    /// If states, weights and room do not go together.
    pub fn product(
        &self,
        product: &Product,
        panels: Range<usize>,
        states: Rows<'_>,
        out: &mut RowsMut<'_>,
    ) {
        let weights = &product.weights;
        assert_eq!(states.width, weights.inputs(), "values of a state");
        assert_eq!(
            weights.columns(),
            self.columns(),
            "packed for another back end"
        );
        assert_eq!(states.count, out.count, "rows");
        assert!(panels.end <= weights.panels(), "panels");
        assert!(panels.len() <= out.width.div_ceil(PANEL), "columns");
        let (value_bytes, tile_rows) = match weights.format() {
            Format::F32 => (4, self.table().exact_rows),
            Format::Bf16 => (2, self.table().rounded_rows),
        };
        let block = (BLOCK_BYTES / (value_bytes * states.stride)).max(tile_rows);
        let mut scratch = [0.0; ROWS_MAX * PANEL];
        for block in pieces(0..states.count, block) {
            for (column, panel) in panels.clone().enumerate() {
                for rows in pieces(block.clone(), tile_rows) {
                    let at = rows.start * out.stride + column * PANEL;
                    // Whoever keeps 32-bit floats gets them without a detour.
                    let (c, c_stride) = if out.exact.is_empty() {
                        (&mut scratch[..], PANEL)
                    } else {
                        (&mut out.exact[at..], out.stride)
                    };
                    self.multiply(product, panel, &states, (&rows, c, c_stride));
                    let keeps = !out.rounded.is_empty();
                    let rounded = keeps.then(|| (&mut out.rounded[at..], out.stride));
                    self.finish(product.activation, (rows.len(), c, c_stride), rounded);
                }
            }
        }
        (self.table().done)();
    }

    /// What follows the sums of a tile.
    fn finish(
        &self,
        activation: Activation,
        (rows, c, c_stride): (usize, &mut [f32], usize),
        rounded: Option<(&mut [u16], usize)>,
    ) {
        let shape = Shape {
            rows,
            width: PANEL,
            stride: c_stride,
        };
        self.activate(activation, c, shape);
        if let Some((rounded, stride)) = rounded {
            self.round(c, shape, rounded, stride);
        }
    }

    fn multiply(
        &self,
        product: &Product,
        panel: usize,
        states: &Rows<'_>,
        (rows, c, c_stride): (&Range<usize>, &mut [f32], usize),
    ) {
        let start = rows.start * states.stride;
        let bias = &product.bias[panel];
        let columns = product.weights.columns();
        // Where the second half of a panel begins: in the same row, or behind those of the first.
        let half = |k| {
            if columns == PANEL {
                PANEL / 2
            } else {
                k * columns
            }
        };
        if let Some(b) = product.weights.exact(panel) {
            self.exact(Tile {
                rows: rows.len(),
                k: product.weights.inputs(),
                a: &states.exact[start..],
                a_stride: states.stride,
                b,
                b_stride: columns,
                b_half: half(product.weights.inputs()),
                c,
                c_stride,
                bias,
            });
        } else if let Some(b) = product.weights.rounded(panel) {
            let k = product.weights.inputs().div_ceil(2);
            self.rounded(Tile {
                rows: rows.len(),
                k,
                a: &states.rounded[start..],
                a_stride: states.stride,
                b,
                b_stride: 2 * columns,
                b_half: 2 * half(k),
                c,
                c_stride,
                bias,
            });
        }
    }
}

/// Cuts `rows` into as few pieces of at most `most` as there can be, all about as long.
pub(crate) fn pieces(rows: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.len().div_ceil(most);
    let edge = move |piece: usize| rows.start + rows.len() * piece / count;
    (0..count).map(move |piece| edge(piece)..edge(piece + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_few_and_about_as_long() {
        let lengths =
            |rows, most| -> Vec<usize> { pieces(rows, most).map(|it| it.len()).collect() };
        assert_eq!(lengths(0..28, 14), [14, 14]);
        assert_eq!(lengths(3..18, 14), [7, 8]);
        assert_eq!(lengths(0..1, 14), [1]);
        assert!(lengths(5..5, 14).is_empty());
        let all: Vec<usize> = pieces(2..99, 6).flatten().collect();
        assert_eq!(all, (2..99).collect::<Vec<_>>());
    }
}
