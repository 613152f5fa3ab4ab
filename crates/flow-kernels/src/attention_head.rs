//! What attention has in common, whatever the format of its operands: the layout of heads, the softmax, and the output.

use std::ops::Range;

use crate::activations::RowsMut;
use crate::kernels::Kernels;
use crate::row_layout::RowLayout;
use crate::tile::{PANEL, ROWS_MAX};

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

/// One head of one text.
pub(crate) struct Head<'a> {
    pub(crate) kernels: &'a Kernels,
    pub(crate) config: &'a AttentionConfig<'a>,
    pub(crate) index: usize,
    pub(crate) tokens: usize,
}

/// The first column of each part of a head.
pub(crate) struct HeadColumns {
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) values: usize,
}

impl HeadColumns {
    pub(crate) fn new(head: usize, head_size: usize) -> Self {
        let queries = head * head_size * 3;
        Self {
            queries,
            keys: queries + head_size,
            values: queries + 2 * head_size,
        }
    }
}

impl Head<'_> {
    /// Values from one row of scores to the next: the number of tokens, rounded up to whole panels.
    pub(crate) fn stride(&self) -> usize {
        self.tokens.next_multiple_of(PANEL)
    }

    /// Applies an unnormalized softmax to each row of scores, and returns the factor that normalizes each row.
    pub(crate) fn softmax(&self, rows: &Range<usize>, scores: &mut [f32]) -> [f32; ROWS_MAX] {
        let scale = self.add_bias(rows, &(0..self.tokens), (scores, self.stride()));
        let mut factors = [0.0; ROWS_MAX];
        self.kernels
            .softmax(scores, self.layout(rows), scale, &mut factors);
        factors
    }

    /// How rows of scores lie in memory.
    fn layout(&self, rows: &Range<usize>) -> RowLayout {
        RowLayout {
            rows: rows.len(),
            width: self.tokens,
            stride: self.stride(),
        }
    }

    /// Adds the position bias to scores of some keys, if the model has one. Returns the scale that is left to apply.
    pub(crate) fn add_bias(
        &self,
        rows: &Range<usize>,
        keys: &Range<usize>,
        (scores, stride): (&mut [f32], usize),
    ) -> f32 {
        let scale = self.config.scale;
        let Some(bias) = &self.config.position_bias else {
            return scale;
        };
        for (query, scores) in rows.clone().zip(scores.chunks_exact_mut(stride)) {
            let scores = &mut scores[..keys.len()];
            bias.add((self.index, query, keys.start), scale, scores);
        }
        1.0
    }

    /// Multiplies a panel of sums by the factors of its rows, and copies it to `out`.
    pub(crate) fn finish(
        &self,
        sums: &mut [f32],
        (panel, rows): (usize, &Range<usize>),
        factors: &[f32],
        out: &mut RowsMut<'_>,
    ) {
        let head_size = self.config.head_size;
        let layout = RowLayout {
            rows: rows.len(),
            width: (head_size - panel * PANEL).min(PANEL),
            stride: PANEL,
        };
        self.kernels.scale_rows(sums, layout, factors);
        let column = self.index * head_size + panel * PANEL;
        self.store(sums, layout, rows.start * out.stride + column, out);
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
    /// Scales scores of one query with keys from `key` on, and adds the bias of each key's distance.
    fn add(&self, (head, query, key): (usize, usize, usize), scale: f32, scores: &mut [f32]) {
        let distances = 2 * self.max_tokens - 1;
        let values = &self.values[head * distances..][..distances];
        let values = &values[self.max_tokens - 1 + key - query..][..scores.len()];
        for (score, value) in scores.iter_mut().zip(values) {
            *score = *score * scale + value;
        }
    }
}
