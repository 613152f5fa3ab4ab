//! From ids to the states that the first layer sees.

use flow_kernels::{Activations, CpuPrecision, Kernels, RowsMut, Storage};

use super::{Norm, f16};

/// The tables, and what is done with their sum.
#[derive(Debug)]
pub(super) struct Embeddings {
    words: Words,
    /// One row for each position of a text, the one segment's embedding included.
    positions: Activations,
    norm: Norm,
    width: usize,
}

/// A row for each word: half of a small model's memory.
#[derive(Debug)]
enum Words {
    F32(Vec<f32>),
    /// Beside weights of eight bits of precision, eleven are exact enough.
    Half(Vec<u16>),
}

impl Embeddings {
    pub(super) fn new(format: CpuPrecision, words: Vec<f32>, positions: &[Vec<f32>], norm: Norm) -> Self {
        let width = norm.scale.len();
        let words = match format {
            CpuPrecision::F32 => Words::F32(words),
            CpuPrecision::Bf16 => Words::Half(words.into_iter().map(f16::round).collect()),
        };
        let mut rows = Activations::new(width, Storage::F32);
        rows.grow(positions.len());
        let mut all = rows.rows_mut(0..positions.len());
        for (number, position) in positions.iter().enumerate() {
            all.row(number).copy_from_slice(position);
        }
        Self {
            words,
            positions: rows,
            norm,
            width,
        }
    }

    /// Bytes of the words' table.
    pub(super) fn bytes(&self) -> usize {
        match &self.words {
            Words::F32(words) => size_of_val(&words[..]),
            Words::Half(words) => size_of_val(&words[..]),
        }
    }

    /// The states of one text's tokens. An id beyond the table is that of the last word.
    pub(super) fn embed(&self, kernels: &Kernels, ids: &[u32], states: &mut RowsMut<'_>) {
        for (row, &id) in ids.iter().enumerate() {
            self.word(id as usize, states.row(row));
        }
        self.norm
            .add(kernels, self.positions.rows(0..ids.len()), states);
    }

    fn word(&self, id: usize, state: &mut [f32]) {
        let start = |length: usize| id.min(length / self.width - 1) * self.width;
        match &self.words {
            Words::F32(words) => {
                state.copy_from_slice(&words[start(words.len())..][..self.width]);
            }
            Words::Half(words) => {
                let words = &words[start(words.len())..][..self.width];
                for (value, word) in state.iter_mut().zip(words) {
                    *value = f16::widen(*word);
                }
            }
        }
    }
}
