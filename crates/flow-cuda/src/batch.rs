//! The description of a batch that kernels read: one block of memory, which takes a single copy to the device.

use crate::launcher::TILE_QUERIES;

/// Parts begin at a multiple of this number of words, which is 16 bytes.
const ALIGN: usize = 4;

/// The token ids of some texts, without padding.
#[derive(Debug, Clone, Copy)]
pub struct TokenIds<'a> {
    /// All ids, text after text.
    pub ids: &'a [u32],
    /// Number of tokens of each text.
    pub lengths: &'a [usize],
    /// Where the second text of each pair begins, as a number of tokens from the pair's beginning: the tokens from there on are of
    /// type 1. Empty if there are no pairs.
    pub second_starts: &'a [usize],
}

impl TokenIds<'_> {
    /// The first `texts` texts, and the others.
    pub(crate) fn split_at(&self, texts: usize) -> (Self, Self) {
        let (lengths, other_lengths) = self.lengths.split_at(texts);
        let (ids, other_ids) = self.ids.split_at(lengths.iter().sum());
        let pairs = texts.min(self.second_starts.len());
        let (second_starts, other_second_starts) = self.second_starts.split_at(pairs);
        let first = Self {
            ids,
            lengths,
            second_starts,
        };
        let others = Self {
            ids: other_ids,
            lengths: other_lengths,
            second_starts: other_second_starts,
        };
        (first, others)
    }
}

/// A batch as 32-bit words, and the offsets of its parts, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackedBatch {
    /// The token ids, then the parts below.
    pub(crate) words: Vec<u32>,
    pub(crate) tokens: usize,
    pub(crate) texts: usize,
    /// Number of query tiles.
    pub(crate) tiles: usize,
    /// Offset of the row of each token's position embedding.
    pub(crate) positions_offset: usize,
    /// Offset of the query tiles: for each, the text's first token, its number of tokens, and the tile's first query.
    pub(crate) tiles_offset: usize,
    /// Offset of the texts: for each, its first token and its number of tokens.
    pub(crate) texts_offset: usize,
}

impl PackedBatch {
    /// `second_row` is the row of the first position embedding for tokens of type 1.
    ///
    /// # Panics
    ///
    /// If the number of ids is not the sum of the lengths.
    pub(crate) fn new(texts: TokenIds<'_>, second_row: usize) -> Self {
        let TokenIds { ids, lengths, .. } = texts;
        assert_eq!(ids.len(), lengths.iter().sum::<usize>(), "ids");
        let mut batch = Self {
            words: ids.to_vec(),
            tokens: ids.len(),
            texts: lengths.len(),
            ..Self::default()
        };
        batch.positions_offset = batch.begin_part();
        for (text, &length) in lengths.iter().enumerate() {
            let second_start = texts.second_starts.get(text).copied().unwrap_or(length);
            let second_start = second_start.min(length);
            batch.words.extend(0..word(second_start));
            let second = second_row + second_start..second_row + length;
            batch.words.extend(second.map(word));
        }
        batch.tiles_offset = batch.begin_part();
        for (first, length) in spans(lengths) {
            for query in (0..length).step_by(TILE_QUERIES) {
                batch.words.extend([first, length, query].map(word));
                batch.tiles += 1;
            }
        }
        batch.texts_offset = batch.begin_part();
        for (first, length) in spans(lengths) {
            batch.words.extend([first, length].map(word));
        }
        batch
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }

    /// Converts an offset in words to bytes.
    pub(crate) fn byte_offset(words: usize) -> usize {
        words * size_of::<u32>()
    }

    /// Aligns the end of the words, and returns it as the offset of the next part.
    fn begin_part(&mut self) -> usize {
        let offset = self.words.len().next_multiple_of(ALIGN);
        self.words.resize(offset, 0);
        offset
    }
}

/// Number of leading texts that have about half of the tokens: at least one text and not all. `None` for a single text.
pub(crate) fn split_point(lengths: &[usize]) -> Option<usize> {
    let total: usize = lengths.iter().sum();
    let mut tokens = 0;
    let middle = lengths.iter().position(|length| {
        tokens += length;
        2 * tokens >= total
    });
    (lengths.len() > 1).then(|| (middle.unwrap_or(0) + 1).min(lengths.len() - 1))
}

/// The first token and the length of each text.
fn spans(lengths: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    lengths.iter().scan(0, |end, &length| {
        let first = *end;
        *end += length;
        Some((first, length))
    })
}

fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_locates_each_token_tile_and_text() {
        let ids: Vec<u32> = (100..119).collect();
        let texts = TokenIds {
            ids: &ids,
            lengths: &[2, 17],
            second_starts: &[],
        };
        let batch = PackedBatch::new(texts, 512);
        assert_eq!((batch.tokens, batch.texts, batch.tiles), (19, 2, 3));
        assert_eq!(batch.words[..19], ids);
        let positions: Vec<u32> = (0..2).chain(0..17).collect();
        assert_eq!(batch.words[batch.positions_offset..][..19], positions);
        let tiles = [0, 2, 0, 2, 17, 0, 2, 17, 16];
        assert_eq!(batch.words[batch.tiles_offset..][..9], tiles);
        assert_eq!(batch.words[batch.texts_offset..], [0, 2, 2, 17]);
        for offset in [
            batch.positions_offset,
            batch.tiles_offset,
            batch.texts_offset,
        ] {
            assert!(offset.is_multiple_of(ALIGN));
        }
    }

    #[test]
    fn tokens_of_second_texts_have_positions_of_their_own() {
        let texts = TokenIds {
            ids: &[7; 6],
            lengths: &[2, 3, 1],
            second_starts: &[1, 3, 9],
        };
        let batch = PackedBatch::new(texts, 10);
        assert_eq!(
            batch.words[batch.positions_offset..][..6],
            [0, 11, 0, 1, 2, 0]
        );
        let without_types = PackedBatch::new(texts, 0);
        let positions = &without_types.words[without_types.positions_offset..][..6];
        assert_eq!(positions, [0, 1, 0, 1, 2, 0]);
    }

    #[test]
    fn pairs_are_split_with_their_second_texts() {
        let pairs = TokenIds {
            ids: &[1, 2, 3, 4, 5],
            lengths: &[2, 3],
            second_starts: &[1, 2],
        };
        let (first, others) = pairs.split_at(1);
        assert_eq!((first.ids, first.second_starts), (&[1, 2][..], &[1][..]));
        assert_eq!(
            (others.ids, others.second_starts),
            (&[3, 4, 5][..], &[2][..])
        );
        let texts = TokenIds {
            second_starts: &[],
            ..pairs
        };
        assert!(texts.split_at(1).1.second_starts.is_empty());
    }

    #[test]
    fn a_batch_is_split_by_tokens_and_a_single_text_is_not() {
        assert_eq!(split_point(&[5, 5, 5, 5]), Some(2));
        assert_eq!(split_point(&[20, 1, 1]), Some(1));
        assert_eq!(split_point(&[1, 1, 20]), Some(2));
        assert_eq!(split_point(&[0, 0]), Some(1));
        assert_eq!(split_point(&[9]), None);
        assert_eq!(split_point(&[]), None);
    }
}
