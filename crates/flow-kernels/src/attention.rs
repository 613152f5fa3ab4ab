//! Attention within one text, head by head.
//!
//! For a few rows of queries at a time: their products with all keys, a soft-max over each row, and the
//! products of that with the values. The rows of weights never leave the first caches, and nothing is
//! computed for other texts or for padding.

use std::ops::Range;

use crate::activations::{Rows, RowsMut};
use crate::elementwise::Shape;
use crate::kernels::Kernels;
use crate::linear::pieces;
use crate::tile::{NO_BIAS, PANEL, ROWS_MAX, Tile};

/// Attention heads beside each other.
///
/// A row of states has, head after head, `width` values of its query, its key and its value.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// How many heads.
    pub heads: usize,
    /// How many values a query has, and a key, and a value.
    pub width: usize,
    /// What the products of queries and keys are multiplied by.
    pub scale: f32,
    /// What is added to them then, if anything.
    pub distances: Option<Distances<'a>>,
}

/// A value for each head and each distance from a query to a key.
#[derive(Debug, Clone, Copy)]
pub struct Distances<'a> {
    /// Head after head, `2 * span - 1` values: for the distances `1 - span` to `span - 1`.
    pub values: &'a [f32],
    /// The most tokens a text can have.
    pub span: usize,
}

/// Memory that one thread needs for attention, used again for each text.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    keys: Vec<f32>,
    values: Vec<f32>,
    weights: Vec<f32>,
}

/// One head of one text, ready to be asked.
struct Head<'a> {
    kernels: &'a Kernels,
    attention: &'a Attention<'a>,
    number: usize,
    tokens: usize,
    /// Panels of keys: value after value, each of [`PANEL`] keys, of which the last may mean nothing.
    keys: &'a [f32],
    /// Panels of values: token after token. One panel begins where the one before it ends, or, in states,
    /// beside it.
    values: &'a [f32],
    values_stride: usize,
    values_panel: usize,
}

impl Kernels {
    /// Puts into each row of `out`, head after head, what it makes of the text whose tokens are `states`.
    ///
    /// # Panics
    ///
    /// If states and room do not go together, or the text is longer than its distances reach.
    pub fn attention(
        &self,
        attention: &Attention<'_>,
        states: Rows<'_>,
        scratch: &mut AttentionScratch,
        out: &mut RowsMut<'_>,
    ) {
        let (heads, width, tokens) = (attention.heads, attention.width, states.count);
        assert_eq!(states.width, heads * width * 3, "queries, keys and values");
        assert_eq!((out.width, out.count), (heads * width, tokens), "room");
        let AttentionScratch {
            keys: packed_keys,
            values: packed_values,
            weights,
        } = scratch;
        let rows_max = self.table().exact_rows;
        weights.resize(rows_max * tokens.next_multiple_of(PANEL), 0.0);
        for number in 0..heads {
            let start = number * width * 3;
            let (queries, keys, values) = (start, start + width, start + 2 * width);
            pack_keys(packed_keys, &states, keys, width);
            let in_place = width.is_multiple_of(PANEL);
            if !in_place {
                pack_values(packed_values, &states, values, width);
            }
            let head = Head {
                kernels: self,
                attention,
                number,
                tokens,
                keys: packed_keys,
                values: if in_place {
                    &states.exact[values..]
                } else {
                    packed_values
                },
                values_stride: if in_place { states.stride } else { PANEL },
                values_panel: if in_place { PANEL } else { tokens * PANEL },
            };
            for rows in pieces(0..tokens, rows_max) {
                head.weigh(&rows, (&states.exact[queries..], states.stride), weights);
                let factors = head.soften(&rows, weights);
                head.gather(&rows, weights, &factors, out);
            }
        }
    }
}

impl Head<'_> {
    /// Tokens, filled up to whole panels.
    fn stride(&self) -> usize {
        self.tokens.next_multiple_of(PANEL)
    }

    /// The products of some tokens' queries with all keys.
    fn weigh(&self, rows: &Range<usize>, (queries, stride): (&[f32], usize), weights: &mut [f32]) {
        let width = self.attention.width;
        for (panel, keys) in self.keys.chunks_exact(width * PANEL).enumerate() {
            self.kernels.exact(Tile {
                rows: rows.len(),
                k: width,
                a: &queries[rows.start * stride..],
                a_stride: stride,
                b: keys,
                b_stride: PANEL,
                b_half: PANEL / 2,
                c: &mut weights[panel * PANEL..],
                c_stride: self.stride(),
                bias: &NO_BIAS,
            });
        }
    }

    /// A soft-max over each row, but for the factors that it returns.
    fn soften(&self, rows: &Range<usize>, weights: &mut [f32]) -> [f32; ROWS_MAX] {
        let mut scale = self.attention.scale;
        if let Some(distances) = &self.attention.distances {
            let weights = weights.chunks_exact_mut(self.stride());
            for (row, weights) in rows.clone().zip(weights) {
                distances.add(self.number, row, scale, &mut weights[..self.tokens]);
            }
            scale = 1.0;
        }
        let shape = Shape {
            rows: rows.len(),
            width: self.tokens,
            stride: self.stride(),
        };
        let mut factors = [0.0; ROWS_MAX];
        self.kernels.soft_max(weights, shape, scale, &mut factors);
        factors
    }

    /// The sums of all values, weighted.
    fn gather(&self, rows: &Range<usize>, weights: &[f32], factors: &[f32], out: &mut RowsMut<'_>) {
        let width = self.attention.width;
        for panel in 0..width.div_ceil(PANEL) {
            let mut sums = [0.0; ROWS_MAX * PANEL];
            self.kernels.exact(Tile {
                rows: rows.len(),
                k: self.tokens,
                a: weights,
                a_stride: self.stride(),
                b: &self.values[panel * self.values_panel..],
                b_stride: self.values_stride,
                b_half: PANEL / 2,
                c: &mut sums,
                c_stride: PANEL,
                bias: &NO_BIAS,
            });
            let column = self.number * width + panel * PANEL;
            let shape = Shape {
                rows: rows.len(),
                width: (width - panel * PANEL).min(PANEL),
                stride: PANEL,
            };
            self.kernels.scale(&mut sums, shape, factors);
            let at = rows.start * out.stride + column;
            if !out.exact.is_empty() {
                for (row, sums) in sums.chunks_exact(PANEL).take(shape.rows).enumerate() {
                    let to = &mut out.exact[at + row * out.stride..][..shape.width];
                    to.copy_from_slice(&sums[..shape.width]);
                }
            }
            if !out.rounded.is_empty() {
                let to = &mut out.rounded[at..];
                self.kernels.round(&sums, shape, to, out.stride);
            }
        }
    }
}

impl Distances<'_> {
    /// Scales one row of products, and adds what each key's distance says.
    fn add(&self, head: usize, query: usize, scale: f32, products: &mut [f32]) {
        let all = &self.values[head * (2 * self.span - 1)..][..2 * self.span - 1];
        let values = &all[self.span - 1 - query..][..products.len()];
        for (product, value) in products.iter_mut().zip(values) {
            *product = *product * scale + value;
        }
    }
}

/// Turns keys into columns. What fills up the last panel is old or zero: its products are never looked at.
fn pack_keys(packed: &mut Vec<f32>, states: &Rows<'_>, column: usize, width: usize) {
    packed.resize(states.count.next_multiple_of(PANEL) * width, 0.0);
    for (panel, packed) in packed.chunks_exact_mut(width * PANEL).enumerate() {
        let tokens = panel * PANEL..states.count.min((panel + 1) * PANEL);
        for (place, token) in tokens.enumerate() {
            let key = &states.exact[token * states.stride + column..][..width];
            for (value, row) in key.iter().zip(packed.chunks_exact_mut(PANEL)) {
                row[place] = *value;
            }
        }
    }
}

/// Puts values into panels, the last of which is filled up with zeros.
fn pack_values(packed: &mut Vec<f32>, states: &Rows<'_>, column: usize, width: usize) {
    packed.clear();
    packed.resize(width.next_multiple_of(PANEL) * states.count, 0.0);
    for (panel, packed) in packed.chunks_exact_mut(states.count * PANEL).enumerate() {
        let start = panel * PANEL;
        let columns = (width - start).min(PANEL);
        for (token, row) in packed.chunks_exact_mut(PANEL).enumerate() {
            let at = token * states.stride + column + start;
            row[..columns].copy_from_slice(&states.exact[at..][..columns]);
        }
    }
}
