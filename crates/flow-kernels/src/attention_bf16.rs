//! Multi-head attention with operands in bf16: as `attention.rs`, with half of the memory and pairs of values.

use std::ops::Range;

use crate::activations::{Rows, RowsMut};
use crate::aligned::AlignedVec;
use crate::attention_head::{AttentionConfig, Head, HeadColumns};
use crate::kernels::Kernels;
use crate::row_layout::RowLayout;
use crate::split::split_evenly;
use crate::tile::{NO_BIAS, PANEL, Tile};

/// Reusable buffers for attention in bf16 on one thread.
#[derive(Debug, Default)]
pub(crate) struct Bf16Buffers {
    keys: AlignedVec<u16>,
    values: AlignedVec<u16>,
    scores: AlignedVec<f32>,
    /// Scores as operands.
    weights: AlignedVec<u16>,
    /// The sums of a tile of the context.
    sums: AlignedVec<f32>,
}

impl Head<'_> {
    /// Steps of the product of weights and values. A softmax fills rows of weights with zeros, so there may be more of them than
    /// pairs of tokens.
    fn steps(&self) -> usize {
        let unit = self.kernels.table().bf16.steps;
        self.tokens.div_ceil(2).next_multiple_of(unit)
    }
}

impl Kernels {
    /// Computes the attention context of one text, whose states are bf16.
    pub(crate) fn attention_bf16(
        &self,
        config: &AttentionConfig<'_>,
        states: &Rows<'_>,
        buffers: &mut Bf16Buffers,
        out: &mut RowsMut<'_>,
    ) {
        let (head_size, tokens) = (config.head_size, states.count);
        let (rows_max, unit) = (self.table().bf16.rows, self.table().bf16.unit);
        let stride = tokens.next_multiple_of(PANEL);
        let key_values = head_size.div_ceil(2) * 2;
        buffers.keys.set_len(stride * key_values);
        buffers.scores.set_len(rows_max * stride);
        buffers.weights.set_len(rows_max * stride);
        buffers.sums.set_len(rows_max * PANEL);
        for index in 0..config.heads {
            let columns = HeadColumns::new(index, head_size);
            let keys = RowLayout {
                rows: tokens,
                width: head_size,
                stride: states.stride,
            };
            self.pack_keys(&states.bf16s[columns.keys..], keys, &mut buffers.keys);
            let head = Head {
                kernels: self,
                config,
                index,
                tokens,
            };
            let values = &mut buffers.values;
            pack_values(values, states, columns.values, (head_size, head.steps()));
            for rows in split_evenly(0..tokens, rows_max, unit) {
                let queries = &states.bf16s[rows.start * states.stride + columns.queries..];
                self.scores_bf16(&head, (queries, states.stride), &rows, buffers);
                let (scores, weights) = (&mut buffers.scores, &mut buffers.weights);
                let factors = head.softmax_bf16(&rows, scores, weights);
                self.context_bf16(&head, &rows, (buffers, &factors), out);
            }
        }
        (self.table().finish)();
    }

    /// Computes the products of some queries with all keys.
    fn scores_bf16(
        &self,
        head: &Head<'_>,
        (queries, stride): (&[u16], usize),
        rows: &Range<usize>,
        buffers: &mut Bf16Buffers,
    ) {
        let steps = head.config.head_size.div_ceil(2);
        for (panel, keys) in buffers.keys.chunks_exact(steps * 2 * PANEL).enumerate() {
            self.tile_bf16(Tile {
                rows: rows.len(),
                k: steps,
                a: queries,
                a_stride: stride,
                b: keys,
                b_stride: 2 * PANEL,
                b_half: PANEL,
                c: &mut buffers.scores[panel * PANEL..],
                c_stride: head.stride(),
                bias: &NO_BIAS.0,
                ahead: None,
            });
        }
    }

    /// Writes the sum of all values, weighted by each row of scores.
    fn context_bf16(
        &self,
        head: &Head<'_>,
        rows: &Range<usize>,
        (buffers, factors): (&mut Bf16Buffers, &[f32]),
        out: &mut RowsMut<'_>,
    ) {
        let steps = head.steps();
        for (panel, values) in buffers.values.chunks_exact(steps * 2 * PANEL).enumerate() {
            self.tile_bf16(Tile {
                rows: rows.len(),
                k: steps,
                a: &buffers.weights,
                a_stride: head.stride(),
                b: values,
                b_stride: 2 * PANEL,
                b_half: PANEL,
                c: &mut buffers.sums,
                c_stride: PANEL,
                bias: &NO_BIAS.0,
                ahead: None,
            });
            head.finish(&mut buffers.sums, (panel, rows), factors, out);
        }
    }
}

/// Two values that are multiplied in one step.
type Pair = [u16; 2];

/// Joins the values of two tokens each to pairs, in panels of `steps` rows that are padded with zeros.
fn pack_values(
    packed: &mut AlignedVec<u16>,
    states: &Rows<'_>,
    column: usize,
    (head_size, steps): (usize, usize),
) {
    let row_values = 2 * PANEL;
    packed.set_len(head_size.div_ceil(PANEL) * steps * row_values);
    for (panel, packed) in packed.chunks_exact_mut(steps * row_values).enumerate() {
        let start = panel * PANEL;
        let columns = (head_size - start).min(PANEL);
        let row = |token: usize| &states.bf16s[token * states.stride + column + start..][..columns];
        for (index, pairs) in packed.chunks_exact_mut(row_values).enumerate() {
            let pairs = pairs.as_chunks_mut::<2>().0;
            let tokens = 2 * index..states.count.min(2 * index + 2);
            join(tokens.map(row), pairs);
        }
    }
}

/// Writes the values of up to two rows as pairs, and fills the rest with zeros.
fn join<'a>(mut rows: impl Iterator<Item = &'a [u16]>, pairs: &mut [Pair]) {
    let (first, second) = (rows.next().unwrap_or_default(), rows.next());
    let (used, rest) = pairs.split_at_mut(first.len());
    match second {
        Some(second) => {
            for (pair, (first, second)) in used.iter_mut().zip(first.iter().zip(second)) {
                *pair = [*first, *second];
            }
        }
        None => {
            for (pair, first) in used.iter_mut().zip(first) {
                *pair = [*first, 0];
            }
        }
    }
    rest.fill([0; 2]);
}
