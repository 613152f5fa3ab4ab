//! Multi-head attention with operands in bf16: as `attention.rs`, with half of the memory and pairs of values.

use std::ops::{Range, RangeInclusive};

use crate::activations::{Rows, RowsMut};
use crate::aligned::AlignedVec;
use crate::attention_head::{AttentionConfig, Head, HeadColumns};
use crate::elementwise::{LANES, ScoreBlock, reduce};
use crate::kernels::Kernels;
use crate::row_layout::RowLayout;
use crate::split::split_evenly;
use crate::tile::{NO_BIAS, PANEL, ROWS_MAX, Tile};

/// Keys whose scores are computed at a time: the scores stay in the L1 cache until they are weights.
const BLOCK: usize = 2 * PANEL;

/// Sums of weights with which a softmax is exact without a shift. With larger ones, the context could overflow; with smaller ones,
/// weights that matter could be zero.
const SUMS: RangeInclusive<f32> = 1e-18..=1e30;

/// Some queries of one head.
struct Queries<'a> {
    head: &'a Head<'a>,
    /// States that begin with the first queries.
    states: &'a [u16],
    stride: usize,
    rows: Range<usize>,
}

/// Sums of the weights of each row, lane by lane.
#[repr(C, align(64))]
struct LaneSums([[f32; LANES]; ROWS_MAX]);

/// Reusable buffers for attention in bf16 on one thread.
#[derive(Debug, Default)]
pub(crate) struct Bf16Buffers {
    keys: AlignedVec<u16>,
    values: AlignedVec<u16>,
    /// Scores of two blocks of keys.
    scores: AlignedVec<f32>,
    /// Scores as operands.
    weights: AlignedVec<u16>,
    /// The sums of a tile of the context.
    sums: AlignedVec<f32>,
}

impl Head<'_> {
    /// Steps of the product of weights and values. Rows of weights are filled with zeros, so there may be more of them than
    /// pairs of tokens.
    fn steps(&self) -> usize {
        let unit = self.kernels.table().bf16.steps;
        self.tokens.div_ceil(2).next_multiple_of(unit)
    }

    /// The keys of each block.
    fn key_blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let tokens = self.tokens;
        let starts = (0..tokens).step_by(BLOCK);
        starts.map(move |start| start..tokens.min(start + BLOCK))
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
        buffers.scores.set_len(2 * rows_max * BLOCK);
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
                let queries = Queries {
                    head: &head,
                    states: &states.bf16s[rows.start * states.stride + columns.queries..],
                    stride: states.stride,
                    rows,
                };
                let factors = self.softmax_bf16(&queries, buffers);
                self.context_bf16(&head, &queries.rows, (buffers, &factors), out);
            }
        }
        (self.table().finish)();
    }

    /// Writes the weights of all keys for some queries, and returns the factors that normalize each row.
    ///
    /// A softmax is the same whatever is subtracted from all scores. Mostly nothing need be subtracted, so that each block of scores
    /// can become weights before the next is known. Only if sums of weights are too large or too small, all is computed again with
    /// the largest scores subtracted.
    fn softmax_bf16(&self, queries: &Queries<'_>, buffers: &mut Bf16Buffers) -> [f32; ROWS_MAX] {
        let mut sums = self.weights_bf16(queries, &[0.0; ROWS_MAX], buffers);
        let used = &sums[..queries.rows.len()];
        if !used.iter().all(|sum| SUMS.contains(sum)) {
            let maxima = self.maxima_bf16(queries, buffers);
            sums = self.weights_bf16(queries, &maxima, buffers);
        }
        sums.map(|sum| 1.0 / sum)
    }

    /// Writes the weights of all keys for some queries, which are `exp(scale · (score − shift))`, and returns their sums.
    fn weights_bf16(
        &self,
        queries: &Queries<'_>,
        shifts: &[f32],
        buffers: &mut Bf16Buffers,
    ) -> [f32; ROWS_MAX] {
        let Bf16Buffers {
            keys,
            scores,
            weights,
            ..
        } = buffers;
        let head = queries.head;
        let rows = queries.rows.len();
        let mut sums = LaneSums([[0.0; LANES]; ROWS_MAX]);
        let half = scores.len() / 2;
        let (mut current, mut next) = scores.split_at_mut(half);
        let mut blocks = head.key_blocks().peekable();
        if let Some(first) = blocks.peek() {
            self.scores_bf16(queries, first, keys, current);
        }
        while let Some(block) = blocks.next() {
            // The next block's products are computed while this block's exponentials are.
            if let Some(block) = blocks.peek() {
                self.scores_bf16(queries, block, keys, next);
            }
            let scale = head.add_bias(&queries.rows, &block, (current, BLOCK));
            self.weigh_bf16(&mut ScoreBlock {
                scores: current,
                layout: RowLayout {
                    rows,
                    width: block.len(),
                    stride: BLOCK,
                },
                scale,
                shifts,
                sums: &mut sums.0,
                weights: &mut weights[block.start..],
                weights_stride: head.stride(),
            });
            std::mem::swap(&mut current, &mut next);
        }
        let mut totals = [0.0; ROWS_MAX];
        for (total, lanes) in totals.iter_mut().zip(sums.0).take(rows) {
            *total = reduce(lanes, |a, b| a + b);
        }
        totals
    }

    /// The largest scores of some queries.
    fn maxima_bf16(&self, queries: &Queries<'_>, buffers: &mut Bf16Buffers) -> [f32; ROWS_MAX] {
        let mut maxima = [f32::MIN; ROWS_MAX];
        for block in queries.head.key_blocks() {
            let scores = &mut buffers.scores;
            self.scores_bf16(queries, &block, &buffers.keys, scores);
            queries
                .head
                .add_bias(&queries.rows, &block, (scores, BLOCK));
            let rows = scores.chunks_exact(BLOCK).take(queries.rows.len());
            for (maximum, scores) in maxima.iter_mut().zip(rows) {
                *maximum = scores[..block.len()]
                    .iter()
                    .copied()
                    .fold(*maximum, f32::max);
            }
        }
        maxima
    }

    /// Computes the products of some queries with a block of keys.
    fn scores_bf16(
        &self,
        queries: &Queries<'_>,
        block: &Range<usize>,
        keys: &[u16],
        scores: &mut [f32],
    ) {
        let steps = queries.head.config.head_size.div_ceil(2);
        let panels = block.start / PANEL..block.end.div_ceil(PANEL);
        let tile = Tile {
            rows: queries.rows.len(),
            k: steps,
            a: queries.states,
            a_stride: queries.stride,
            b: &keys[panels.start * steps * 2 * PANEL..],
            b_stride: 2 * PANEL,
            b_half: PANEL,
            c: scores,
            c_stride: BLOCK,
            bias: &NO_BIAS.0,
            ahead: None,
        };
        self.panels_bf16(tile, panels.len());
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
