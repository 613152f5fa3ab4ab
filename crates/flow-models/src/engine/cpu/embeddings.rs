//! Embeddings: turns token ids into the hidden states that the first layer reads.

use std::ops::Range;

use flow_kernels::{Activations, CpuPrecision, Int8Matrix, Kernels, RowsMut, Storage};

use super::f16;
use super::layer_norm::LayerNorm;

/// The embedding tables of a model, and the layer norm of their sum.
#[derive(Debug)]
pub(super) struct EmbeddingTables {
    words: WordEmbeddings,
    /// One row for each position of a text, with the embedding of token type 0 added.
    positions: Activations,
    /// The embedding of token type 1 minus that of type 0, if the model has both.
    second_type: Option<Vec<f32>>,
    norm: LayerNorm,
    width: usize,
}

/// One row for each token id: half of a small model's memory.
#[derive(Debug)]
enum WordEmbeddings {
    F32(Vec<f32>),
    /// Half precision, whose 11 bits are precise enough beside weights in bf16, which have 8.
    F16(Vec<u16>),
    /// 8-bit integers, with a scale in half precision for each [`GROUP`] of values. A scale for a whole row would lose up to a
    /// percent of the vector of a text that repeats a token with outliers.
    Int8 {
        values: Vec<i8>,
        scales: Vec<u16>,
    },
}

/// Values that share a scale.
const GROUP: usize = 32;

impl EmbeddingTables {
    /// `words` and `positions` are row-major matrices as wide as the layer norm. `second_type` is a row that tokens of type 1
    /// add to their position.
    pub(super) fn new(
        precision: CpuPrecision,
        words: Vec<f32>,
        (positions, second_type): (&[f32], Option<Vec<f32>>),
        norm: LayerNorm,
    ) -> Self {
        let width = norm.width();
        let words = match precision {
            CpuPrecision::F32 => WordEmbeddings::F32(words),
            CpuPrecision::Bf16 => {
                WordEmbeddings::F16(words.into_iter().map(f16::from_f32).collect())
            }
            CpuPrecision::Int8 => int8_words(&words, width),
        };
        let count = positions.len() / width;
        let mut rows = Activations::new(width, Storage::F32);
        rows.grow(count);
        let mut all = rows.rows_mut(0..count);
        for (row, position) in positions.chunks_exact(width).enumerate() {
            all.row(row).copy_from_slice(position);
        }
        Self {
            words,
            positions: rows,
            second_type,
            norm,
            width,
        }
    }

    /// Size of the word embeddings in bytes.
    pub(super) fn bytes(&self) -> usize {
        match &self.words {
            WordEmbeddings::F32(words) => size_of_val(&words[..]),
            WordEmbeddings::F16(words) => size_of_val(&words[..]),
            WordEmbeddings::Int8 { values, scales } => values.len() + size_of_val(&scales[..]),
        }
    }

    /// Writes the states of one text's tokens. An id beyond the vocabulary counts as the last one. Tokens in `second_text` have
    /// type 1.
    pub(super) fn embed(
        &self,
        kernels: &Kernels,
        (ids, second_text): (&[u32], Range<usize>),
        states: &mut RowsMut<'_>,
    ) {
        for (row, &id) in ids.iter().enumerate() {
            self.copy_word(id as usize, states.row(row));
        }
        if let Some(second_type) = &self.second_type {
            for row in second_text {
                let state = states.row(row).iter_mut();
                state.zip(second_type).for_each(|(to, add)| *to += add);
            }
        }
        self.norm
            .add(kernels, self.positions.rows(0..ids.len()), states);
    }

    fn copy_word(&self, id: usize, state: &mut [f32]) {
        let start = |length: usize| id.min(length / self.width - 1) * self.width;
        match &self.words {
            WordEmbeddings::F32(words) => {
                state.copy_from_slice(&words[start(words.len())..][..self.width]);
            }
            WordEmbeddings::F16(words) => {
                let word = &words[start(words.len())..][..self.width];
                for (to, from) in state.iter_mut().zip(word) {
                    *to = f16::to_f32(*from);
                }
            }
            WordEmbeddings::Int8 { values, scales } => {
                let start = start(values.len());
                let groups = self.width.div_ceil(GROUP);
                let scales = &scales[start / self.width * groups..][..groups];
                let groups = values[start..][..self.width].chunks(GROUP).zip(scales);
                for (state, (group, scale)) in state.chunks_mut(GROUP).zip(groups) {
                    let scale = f16::to_f32(*scale);
                    for (to, from) in state.iter_mut().zip(group) {
                        *to = f32::from(*from) * scale;
                    }
                }
            }
        }
    }
}

/// Rounds rows of `width` values to 8-bit integers.
fn int8_words(words: &[f32], width: usize) -> WordEmbeddings {
    let mut values = Vec::with_capacity(words.len());
    let mut scales = Vec::with_capacity(words.len() / width * width.div_ceil(GROUP));
    for group in words.chunks_exact(width).flat_map(|row| row.chunks(GROUP)) {
        let scale = f16::from_f32(Int8Matrix::scale(group));
        let factor = 1.0 / f16::to_f32(scale).max(f32::MIN_POSITIVE);
        values.extend(
            group
                .iter()
                .map(|value| Int8Matrix::nearest(value * factor)),
        );
        scales.push(scale);
    }
    WordEmbeddings::Int8 { values, scales }
}
