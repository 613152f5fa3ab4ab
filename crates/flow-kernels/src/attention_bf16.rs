//! Multi-head attention with operands in bf16: as `attention.rs`, with half of the memory and pairs of values.

use std::ops::Range;

use crate::activations::{Rows, RowsMut};
use crate::aligned::AlignedVec;
use crate::attention_head::{AttentionConfig, Head, HeadColumns};
use crate::kernels::Kernels;
use crate::row_layout::RowLayout;
use crate::split::split_evenly;
use crate::tile::{NO_BIAS, PANEL, Tile, TileSums};

/// Reusable buffers for attention in bf16 on one thread.
#[derive(Debug, Default)]
pub(crate) struct Bf16Buffers {
    keys: AlignedVec<u16>,
    values: AlignedVec<u16>,
    scores: AlignedVec<f32>,
    /// Scores as operands.
    weights: AlignedVec<u16>,
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
        buffers.scores.set_len(rows_max * stride);
        buffers.weights.set_len(rows_max * stride);
        for index in 0..config.heads {
            let columns = HeadColumns::new(index, head_size);
            pack_keys(&mut buffers.keys, states, columns.keys, head_size);
            pack_values(&mut buffers.values, states, columns.values, head_size);
            let head = Head {
                kernels: self,
                config,
                index,
                tokens,
            };
            for rows in split_evenly(0..tokens, rows_max, unit) {
                let queries = &states.bf16s[rows.start * states.stride + columns.queries..];
                self.scores_bf16(&head, (queries, states.stride), &rows, buffers);
                let factors = head.softmax(&rows, &mut buffers.scores);
                let layout = RowLayout {
                    rows: rows.len(),
                    width: tokens.next_multiple_of(2),
                    stride,
                };
                self.round(&buffers.scores, layout, &mut buffers.weights, stride);
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
        (buffers, factors): (&Bf16Buffers, &[f32]),
        out: &mut RowsMut<'_>,
    ) {
        let steps = head.tokens.div_ceil(2);
        for (panel, values) in buffers.values.chunks_exact(steps * 2 * PANEL).enumerate() {
            let mut sums = TileSums::ZEROS;
            self.tile_bf16(Tile {
                rows: rows.len(),
                k: steps,
                a: &buffers.weights,
                a_stride: head.stride(),
                b: values,
                b_stride: 2 * PANEL,
                b_half: PANEL,
                c: &mut sums.0,
                c_stride: PANEL,
                bias: &NO_BIAS.0,
                ahead: None,
            });
            head.finish(&mut sums.0, (panel, rows), factors, out);
        }
    }
}

/// Transposes the keys into panels of pairs. The padding of the last panel is unspecified: its scores are never read.
fn pack_keys(packed: &mut AlignedVec<u16>, states: &Rows<'_>, column: usize, head_size: usize) {
    let row_values = 2 * PANEL;
    let panel_values = head_size.div_ceil(2) * row_values;
    packed.set_len(states.count.div_ceil(PANEL) * panel_values);
    for (panel, packed) in packed.chunks_exact_mut(panel_values).enumerate() {
        let tokens = panel * PANEL..states.count.min((panel + 1) * PANEL);
        for (lane, token) in tokens.enumerate() {
            let key = &states.bf16s[token * states.stride + column..][..head_size];
            for (pair, row) in key.chunks(2).zip(packed.chunks_exact_mut(row_values)) {
                row[2 * lane] = pair[0];
                // An odd head size ends with half a pair.
                row[2 * lane + 1] = pair.get(1).copied().unwrap_or(0);
            }
        }
    }
}

/// Joins the values of two tokens each to pairs, in panels that are padded with zeros.
fn pack_values(packed: &mut AlignedVec<u16>, states: &Rows<'_>, column: usize, head_size: usize) {
    let row_values = 2 * PANEL;
    let panel_values = states.count.div_ceil(2) * row_values;
    packed.set_len(head_size.div_ceil(PANEL) * panel_values);
    packed.fill(0);
    for (panel, packed) in packed.chunks_exact_mut(panel_values).enumerate() {
        let start = panel * PANEL;
        let columns = (head_size - start).min(PANEL);
        let row = |token: usize| &states.bf16s[token * states.stride + column + start..][..columns];
        for (index, pairs) in packed.chunks_exact_mut(row_values).enumerate() {
            let pairs = pairs.as_chunks_mut::<2>().0;
            let first = row(2 * index);
            if 2 * index + 1 < states.count {
                let values = first.iter().zip(row(2 * index + 1));
                for (pair, (first, second)) in pairs.iter_mut().zip(values) {
                    *pair = [*first, *second];
                }
            } else {
                for (pair, first) in pairs.iter_mut().zip(first) {
                    *pair = [*first, 0];
                }
            }
        }
    }
}
