//! Multi-head attention within one text.
//!
//! For a few queries at a time: their scores with all keys, a softmax over each row of scores, and the context, which is
//! the sum of all values weighted by the scores (Vaswani et al., *Attention Is All You Need*, 2017). A row of scores
//! stays in the L1 and L2 caches, and nothing is computed for other texts or for padding.

use std::ops::Range;

use crate::activations::{Rows, RowsMut};
use crate::aligned::AlignedVec;
use crate::attention_bf16::Bf16Buffers;
use crate::attention_head::{AttentionConfig, Head, HeadColumns};
use crate::kernels::Kernels;
use crate::keys;
use crate::row_layout::RowLayout;
use crate::split::split_evenly;
use crate::tile::{NO_BIAS, PANEL, Tile, TileSums};

/// Reusable buffers for attention on one thread.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    keys: AlignedVec<f32>,
    values: AlignedVec<f32>,
    scores: AlignedVec<f32>,
    bf16: Bf16Buffers,
}

/// The values of one head.
#[derive(Clone, Copy)]
struct Values<'a> {
    /// Panels of values. A row of a panel holds [`PANEL`] values of one token.
    panels: &'a [f32],
    /// Distance from one row of a panel to the next.
    stride: usize,
    /// Distance from one panel to the next.
    panel: usize,
}

impl Kernels {
    /// Computes the attention context of one text, whose tokens are the rows of `states`.
    ///
    /// `states` has shape `tokens × (heads · 3 · head_size)`, `out` has `tokens × (heads · head_size)`. If `states` are stored
    /// in bf16 only, products read bf16.
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
        if states.f32s.is_empty() {
            return self.attention_bf16(config, &states, &mut scratch.bf16, out);
        }
        let rows_max = self.table().f32.rows;
        scratch
            .scores
            .set_len(rows_max * tokens.next_multiple_of(PANEL));
        scratch
            .keys
            .set_len(tokens.next_multiple_of(PANEL) * head_size);
        for index in 0..heads {
            let columns = HeadColumns::new(index, head_size);
            let keys = RowLayout {
                rows: tokens,
                width: 2 * head_size,
                stride: 2 * states.stride,
            };
            let from = keys::halves(&states.f32s[columns.keys..]);
            self.pack_keys(from, keys, keys::halves_mut(&mut scratch.keys));
            let in_place = head_size.is_multiple_of(PANEL);
            if !in_place {
                pack_values(&mut scratch.values, &states, columns.values, head_size);
            }
            let values = Values {
                panels: if in_place {
                    &states.f32s[columns.values..]
                } else {
                    &scratch.values
                },
                stride: if in_place { states.stride } else { PANEL },
                panel: if in_place { PANEL } else { tokens * PANEL },
            };
            let head = Head {
                kernels: self,
                config,
                index,
                tokens,
            };
            for rows in split_evenly(0..tokens, rows_max, 1) {
                let queries = &states.f32s[rows.start * states.stride + columns.queries..];
                let scores = &mut scratch.scores;
                head.scores(&rows, (queries, states.stride), &scratch.keys, scores);
                let factors = head.softmax(&rows, scores);
                head.context(&rows, (scores, &factors), values, out);
            }
        }
    }
}

impl Head<'_> {
    /// Computes the products of some queries with all keys, which are packed in panels: a row of a panel holds one value of each
    /// of [`PANEL`] keys.
    fn scores(
        &self,
        rows: &Range<usize>,
        (queries, stride): (&[f32], usize),
        keys: &[f32],
        scores: &mut [f32],
    ) {
        let head_size = self.config.head_size;
        for (panel, keys) in keys.chunks_exact(head_size * PANEL).enumerate() {
            self.kernels.tile_f32(Tile {
                rows: rows.len(),
                k: head_size,
                a: queries,
                a_stride: stride,
                b: keys,
                b_stride: PANEL,
                b_half: PANEL / 2,
                c: &mut scores[panel * PANEL..],
                c_stride: self.stride(),
                bias: &NO_BIAS.0,
                ahead: None,
            });
        }
    }

    /// Writes the sum of all values, weighted by each row of scores.
    fn context(
        &self,
        rows: &Range<usize>,
        (scores, factors): (&[f32], &[f32]),
        values: Values<'_>,
        out: &mut RowsMut<'_>,
    ) {
        for panel in 0..self.config.head_size.div_ceil(PANEL) {
            let mut sums = TileSums::ZEROS;
            self.kernels.tile_f32(Tile {
                rows: rows.len(),
                k: self.tokens,
                a: scores,
                a_stride: self.stride(),
                b: &values.panels[panel * values.panel..],
                b_stride: values.stride,
                b_half: PANEL / 2,
                c: &mut sums.0,
                c_stride: PANEL,
                bias: &NO_BIAS.0,
                ahead: None,
            });
            self.finish(&mut sums.0, (panel, rows), factors, out);
        }
    }
}

/// Copies the values into panels, and pads the last panel with zeros.
fn pack_values(packed: &mut AlignedVec<f32>, states: &Rows<'_>, column: usize, head_size: usize) {
    packed.set_len(head_size.next_multiple_of(PANEL) * states.count);
    packed.fill(0.0);
    for (panel, packed) in packed.chunks_exact_mut(states.count * PANEL).enumerate() {
        let start = panel * PANEL;
        let columns = (head_size - start).min(PANEL);
        for (token, row) in packed.chunks_exact_mut(PANEL).enumerate() {
            let first = token * states.stride + column + start;
            row[..columns].copy_from_slice(&states.f32s[first..][..columns]);
        }
    }
}
