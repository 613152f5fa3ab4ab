//! Multi-head attention within one text.
//!
//! For a few queries at a time: their scores with all keys, a softmax over each row of scores, and the context, which is
//! the sum of all values weighted by the scores (Vaswani et al., *Attention Is All You Need*, 2017). A row of scores
//! stays in the L1 and L2 caches, and nothing is computed for other texts or for padding.

use std::ops::Range;

use crate::activations::{Rows, RowsMut};
use crate::kernels::Kernels;
use crate::row_layout::RowLayout;
use crate::split::split_evenly;
use crate::tile::{NO_BIAS, PANEL, ROWS_MAX, Tile};

/// The attention heads of a layer.
///
/// A row of states holds, head after head, `head_size` values of its query, its key and its value.
#[derive(Debug, Clone, Copy)]
pub struct AttentionConfig<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Values in a query, a key or a value.
    pub head_size: usize,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Added to the scaled products, if the model has it.
    pub position_bias: Option<PositionBias<'a>>,
}

/// A relative position bias: a value for each head and each distance from a query to a key.
///
/// T5 introduced it (Raffel et al., 2020); MPNet uses it.
#[derive(Debug, Clone, Copy)]
pub struct PositionBias<'a> {
    /// For each head, `2 * max_tokens - 1` values, for the distances `1 - max_tokens` to `max_tokens - 1`.
    pub values: &'a [f32],
    /// Maximum tokens of a text.
    pub max_tokens: usize,
}

/// Reusable buffers for attention on one thread.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    keys: Vec<f32>,
    values: Vec<f32>,
    scores: Vec<f32>,
}

/// One head of one text, with its keys and values packed.
struct Head<'a> {
    kernels: &'a Kernels,
    config: &'a AttentionConfig<'a>,
    index: usize,
    tokens: usize,
    /// Panels of [`PANEL`] keys. A row of a panel holds one value of each key. Keys beyond the last token are
    /// unspecified.
    keys: &'a [f32],
    /// Panels of values. A row of a panel holds [`PANEL`] values of one token.
    values: &'a [f32],
    /// Distance from one row of a panel of values to the next.
    values_stride: usize,
    /// Distance from one panel of values to the next.
    values_panel: usize,
}

impl Kernels {
    /// Computes the attention context of one text, whose tokens are the rows of `states`.
    ///
    /// `states` has shape `tokens × (heads · 3 · head_size)`, `out` has `tokens × (heads · head_size)`.
    ///
    /// # Panics
    ///
    /// If the shapes do not fit, or the text is longer than the position bias reaches.
    pub fn attention(
        &self,
        config: &AttentionConfig<'_>,
        states: Rows<'_>,
        scratch: &mut AttentionScratch,
        out: &mut RowsMut<'_>,
    ) {
        let (heads, head_size, tokens) = (config.heads, config.head_size, states.count);
        assert_eq!(states.width, heads * head_size * 3, "shape of the states");
        assert_eq!(
            (out.width, out.count),
            (heads * head_size, tokens),
            "shape of the output"
        );
        let AttentionScratch {
            keys: packed_keys,
            values: packed_values,
            scores,
        } = scratch;
        let rows_max = self.table().rows_f32;
        scores.resize(rows_max * tokens.next_multiple_of(PANEL), 0.0);
        for index in 0..heads {
            let start = index * head_size * 3;
            let (queries, keys, values) = (start, start + head_size, start + 2 * head_size);
            pack_keys(packed_keys, &states, keys, head_size);
            let in_place = head_size.is_multiple_of(PANEL);
            if !in_place {
                pack_values(packed_values, &states, values, head_size);
            }
            let head = Head {
                kernels: self,
                config,
                index,
                tokens,
                keys: packed_keys,
                values: if in_place {
                    &states.f32s[values..]
                } else {
                    packed_values
                },
                values_stride: if in_place { states.stride } else { PANEL },
                values_panel: if in_place { PANEL } else { tokens * PANEL },
            };
            for rows in split_evenly(0..tokens, rows_max) {
                head.scores(&rows, (&states.f32s[queries..], states.stride), scores);
                let factors = head.softmax(&rows, scores);
                head.context(&rows, scores, &factors, out);
            }
        }
    }
}

impl Head<'_> {
    /// Values from one row of scores to the next: the number of tokens, rounded up to whole panels.
    fn stride(&self) -> usize {
        self.tokens.next_multiple_of(PANEL)
    }

    /// Computes the products of some queries with all keys.
    fn scores(&self, rows: &Range<usize>, (queries, stride): (&[f32], usize), scores: &mut [f32]) {
        let head_size = self.config.head_size;
        for (panel, keys) in self.keys.chunks_exact(head_size * PANEL).enumerate() {
            self.kernels.tile_f32(Tile {
                rows: rows.len(),
                k: head_size,
                a: &queries[rows.start * stride..],
                a_stride: stride,
                b: keys,
                b_stride: PANEL,
                b_half: PANEL / 2,
                c: &mut scores[panel * PANEL..],
                c_stride: self.stride(),
                bias: &NO_BIAS,
            });
        }
    }

    /// Applies an unnormalized softmax to each row of scores, and returns the factor that normalizes each row.
    fn softmax(&self, rows: &Range<usize>, scores: &mut [f32]) -> [f32; ROWS_MAX] {
        let mut scale = self.config.scale;
        if let Some(bias) = &self.config.position_bias {
            let scores = scores.chunks_exact_mut(self.stride());
            for (query, scores) in rows.clone().zip(scores) {
                bias.add(self.index, query, scale, &mut scores[..self.tokens]);
            }
            scale = 1.0;
        }
        let layout = RowLayout {
            rows: rows.len(),
            width: self.tokens,
            stride: self.stride(),
        };
        let mut factors = [0.0; ROWS_MAX];
        self.kernels.softmax(scores, layout, scale, &mut factors);
        factors
    }

    /// Writes the sum of all values, weighted by each row of scores.
    fn context(&self, rows: &Range<usize>, scores: &[f32], factors: &[f32], out: &mut RowsMut<'_>) {
        let head_size = self.config.head_size;
        for panel in 0..head_size.div_ceil(PANEL) {
            let mut sums = [0.0; ROWS_MAX * PANEL];
            self.kernels.tile_f32(Tile {
                rows: rows.len(),
                k: self.tokens,
                a: scores,
                a_stride: self.stride(),
                b: &self.values[panel * self.values_panel..],
                b_stride: self.values_stride,
                b_half: PANEL / 2,
                c: &mut sums,
                c_stride: PANEL,
                bias: &NO_BIAS,
            });
            let layout = RowLayout {
                rows: rows.len(),
                width: (head_size - panel * PANEL).min(PANEL),
                stride: PANEL,
            };
            self.kernels.scale_rows(&mut sums, layout, factors);
            let column = self.index * head_size + panel * PANEL;
            self.store(&sums, layout, rows.start * out.stride + column, out);
        }
    }

    /// Copies a panel of the context to `out`, in every format that it stores.
    fn store(&self, sums: &[f32], layout: RowLayout, start: usize, out: &mut RowsMut<'_>) {
        if !out.f32s.is_empty() {
            for (row, sums) in sums.chunks_exact(PANEL).take(layout.rows).enumerate() {
                let to = &mut out.f32s[start + row * out.stride..][..layout.width];
                to.copy_from_slice(&sums[..layout.width]);
            }
        }
        if !out.bf16s.is_empty() {
            let to = &mut out.bf16s[start..];
            self.kernels.round(sums, layout, to, out.stride);
        }
    }
}

impl PositionBias<'_> {
    /// Scales one row of scores, and adds the bias of each key's distance.
    fn add(&self, head: usize, query: usize, scale: f32, scores: &mut [f32]) {
        let distances = 2 * self.max_tokens - 1;
        let values = &self.values[head * distances..][..distances];
        let values = &values[self.max_tokens - 1 - query..][..scores.len()];
        for (score, value) in scores.iter_mut().zip(values) {
            *score = *score * scale + value;
        }
    }
}

/// Transposes the keys into panels. The padding of the last panel is unspecified: its scores are never read.
fn pack_keys(packed: &mut Vec<f32>, states: &Rows<'_>, column: usize, head_size: usize) {
    packed.resize(states.count.next_multiple_of(PANEL) * head_size, 0.0);
    for (panel, packed) in packed.chunks_exact_mut(head_size * PANEL).enumerate() {
        let tokens = panel * PANEL..states.count.min((panel + 1) * PANEL);
        for (lane, token) in tokens.enumerate() {
            let key = &states.f32s[token * states.stride + column..][..head_size];
            for (value, row) in key.iter().zip(packed.chunks_exact_mut(PANEL)) {
                row[lane] = *value;
            }
        }
    }
}

/// Copies the values into panels, and pads the last panel with zeros.
fn pack_values(packed: &mut Vec<f32>, states: &Rows<'_>, column: usize, head_size: usize) {
    packed.clear();
    packed.resize(head_size.next_multiple_of(PANEL) * states.count, 0.0);
    for (panel, packed) in packed.chunks_exact_mut(states.count * PANEL).enumerate() {
        let start = panel * PANEL;
        let columns = (head_size - start).min(PANEL);
        for (token, row) in packed.chunks_exact_mut(PANEL).enumerate() {
            let first = token * states.stride + column + start;
            row[..columns].copy_from_slice(&states.f32s[first..][..columns]);
        }
    }
}
