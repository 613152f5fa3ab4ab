//! The description of a batch that kernels read: one block of memory, which takes a single copy to the device.

use crate::launcher::TILE_QUERIES;

/// Parts begin at a multiple of this number of words, which is 16 bytes.
const ALIGN: usize = 4;

/// A batch as 32-bit words, and the offsets of its parts, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackedBatch {
    /// The token ids, then the parts below.
    pub(crate) words: Vec<u32>,
    pub(crate) tokens: usize,
    pub(crate) texts: usize,
    /// Number of query tiles.
    pub(crate) tiles: usize,
    /// Offset of the position of each token within its text.
    pub(crate) positions_offset: usize,
    /// Offset of the query tiles: for each, the text's first token, its number of tokens, and the tile's first query.
    pub(crate) tiles_offset: usize,
    /// Offset of the texts: for each, its first token and its number of tokens.
    pub(crate) texts_offset: usize,
}

impl PackedBatch {
    /// # Panics
    ///
    /// If the number of ids is not the sum of the lengths.
    pub(crate) fn new(ids: &[u32], lengths: &[usize]) -> Self {
        assert_eq!(ids.len(), lengths.iter().sum::<usize>(), "ids");
        let mut batch = Self {
            words: ids.to_vec(),
            tokens: ids.len(),
            texts: lengths.len(),
            ..Self::default()
        };
        batch.positions_offset = batch.begin_part();
        for length in lengths {
            batch.words.extend(0..word(*length));
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
        let batch = PackedBatch::new(&ids, &[2, 17]);
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
    fn a_batch_is_split_by_tokens_and_a_single_text_is_not() {
        assert_eq!(split_point(&[5, 5, 5, 5]), Some(2));
        assert_eq!(split_point(&[20, 1, 1]), Some(1));
        assert_eq!(split_point(&[1, 1, 20]), Some(2));
        assert_eq!(split_point(&[0, 0]), Some(1));
        assert_eq!(split_point(&[9]), None);
        assert_eq!(split_point(&[]), None);
    }
}
