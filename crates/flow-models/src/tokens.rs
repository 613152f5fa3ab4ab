//! Inputs and outputs of an engine: token ids and hidden states.

use std::ops::Range;

use flow_kernels::Rows;

/// The token ids of some texts, without padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenBatch {
    /// All ids, text after text.
    pub ids: Vec<u32>,
    /// Number of tokens of each text.
    pub lengths: Vec<usize>,
    /// Where the second text of each pair begins, as a number of tokens from the pair's beginning. Empty if the batch has no pairs.
    pub second_starts: Vec<usize>,
    /// The id of the padding token, for engines that pad.
    pub padding_id: u32,
}

impl TokenBatch {
    /// Appends one text.
    pub fn push(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
        self.lengths.push(ids.len());
    }

    /// Appends a text, or a pair of texts, which counts as one text. A batch is made either with this or with [`push`](Self::push).
    pub fn push_pair(&mut self, pair: &PairTokens) {
        self.push(&pair.ids);
        self.second_starts.push(pair.second_start);
    }

    /// The range within the text with index `text` of tokens that belong to the second text of a pair.
    pub(crate) fn second_text(&self, text: usize) -> Range<usize> {
        let length = self.lengths[text];
        let start = self.second_starts.get(text).copied().unwrap_or(length);
        start.min(length)..length
    }

    /// Length of the longest text, in tokens.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Whether all texts have the same length.
    #[must_use]
    pub fn has_equal_lengths(&self) -> bool {
        self.lengths.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// The range of each text in `ids`.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let range = |length: &usize| {
            let start = end;
            end += length;
            start..end
        };
        self.lengths.iter().map(range).collect()
    }

    /// The ids as a row-major matrix of `texts × max_length`, padded with [`Self::padding_id`].
    #[must_use]
    pub fn padded_ids(&self) -> Vec<u32> {
        if self.has_equal_lengths() {
            return self.ids.clone();
        }
        let stride = self.max_length();
        let mut padded = Vec::with_capacity(stride * self.lengths.len());
        let mut rest = &self.ids[..];
        for (row, &length) in self.lengths.iter().enumerate() {
            let (ids, others) = rest.split_at(length);
            padded.extend_from_slice(ids);
            padded.resize((row + 1) * stride, self.padding_id);
            rest = others;
        }
        padded
    }
}

/// The token ids of a text or of a pair of texts, as the tokenizer joins them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairTokens {
    /// All ids, with special tokens.
    pub ids: Vec<u32>,
    /// The number of tokens before the second text: those to which the tokenizer gives type 0. Without a second text, all.
    pub second_start: usize,
    /// Whether a text has lost tokens.
    pub is_truncated: bool,
}

/// The hidden states of a batch after the last layer, one per token. There may be unused states between texts.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenStates {
    /// All values, state after state.
    pub values: Vec<f32>,
    /// Index of each text's first state.
    pub starts: Vec<usize>,
    /// Number of values in a state.
    pub width: usize,
}

impl HiddenStates {
    /// Copies the states out of padded rows. `texts` are the rows of each text.
    pub(crate) fn copy_from(rows: Rows<'_>, width: usize, texts: &[Range<usize>]) -> Self {
        let mut values = Vec::with_capacity(rows.count() * width);
        (0..rows.count()).for_each(|row| values.extend_from_slice(rows.row(row)));
        let starts = texts.iter().map(|text| text.start).collect();
        Self {
            values,
            starts,
            width,
        }
    }

    /// The states of the text with index `text`, which has `length` tokens.
    pub fn of_text(
        &self,
        text: usize,
        length: usize,
    ) -> impl DoubleEndedIterator<Item = &[f32]> + Clone {
        let start = self.starts[text] * self.width;
        self.values[start..start + length * self.width].chunks_exact(self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_pads_to_its_longest_text() {
        let mut batch = TokenBatch {
            padding_id: 9,
            ..TokenBatch::default()
        };
        batch.push(&[1, 2, 3]);
        batch.push(&[4]);
        assert_eq!(batch.ranges(), [0..3, 3..4]);
        assert_eq!(batch.padded_ids(), [1, 2, 3, 4, 9, 9]);
        assert!(!batch.has_equal_lengths());
    }

    #[test]
    fn only_a_pair_has_a_second_text() {
        let mut texts = TokenBatch::default();
        texts.push(&[1, 2, 3]);
        assert_eq!(texts.second_text(0), 3..3);
        let mut pairs = TokenBatch::default();
        pairs.push_pair(&PairTokens {
            ids: vec![1, 2, 3],
            second_start: 1,
            is_truncated: false,
        });
        assert_eq!(pairs.second_text(0), 1..3);
    }
}
