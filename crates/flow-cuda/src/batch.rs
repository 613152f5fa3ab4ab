//! What kernels are told about a batch of texts, as one piece of memory: one copy brings it to the device.

use crate::launcher::TILE_QUERIES;

/// Parts begin at a multiple of so many words, 16 bytes.
const ALIGN: usize = 4;

/// The batch in words of 32 bits, and where in them each part begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) words: Vec<u32>,
    pub(crate) tokens: usize,
    pub(crate) texts: usize,
    /// Groups of queries: the text's first token, its tokens, the first query.
    pub(crate) tiles: usize,
    /// The place of each token in its text.
    pub(crate) places_at: usize,
    pub(crate) tiles_at: usize,
    /// Of each text, the first token and the number of tokens.
    pub(crate) texts_at: usize,
}

impl Batch {
    /// # Panics
    ///
    /// If there are not as many ids as the lengths say.
    pub(crate) fn of(ids: &[u32], lengths: &[usize]) -> Self {
        assert_eq!(ids.len(), lengths.iter().sum::<usize>(), "ids");
        let mut batch = Self {
            words: ids.to_vec(),
            tokens: ids.len(),
            texts: lengths.len(),
            ..Self::default()
        };
        batch.places_at = batch.begin();
        for length in lengths {
            batch.words.extend(0..word(*length));
        }
        batch.tiles_at = batch.begin();
        for (first, length) in firsts(lengths) {
            for query in (0..length).step_by(TILE_QUERIES) {
                batch.words.extend([first, length, query].map(word));
                batch.tiles += 1;
            }
        }
        batch.texts_at = batch.begin();
        for (first, length) in firsts(lengths) {
            batch.words.extend([first, length].map(word));
        }
        batch
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }

    /// Where a part begins, in bytes.
    pub(crate) fn offset(at: usize) -> usize {
        at * size_of::<u32>()
    }

    fn begin(&mut self) -> usize {
        let at = self.words.len().next_multiple_of(ALIGN);
        self.words.resize(at, 0);
        at
    }
}

/// How many of the texts have about half of the tokens, if there is more than one: at least one, and not all.
pub(crate) fn half(lengths: &[usize]) -> Option<usize> {
    let total: usize = lengths.iter().sum();
    let mut before = 0;
    let enough = lengths.iter().position(|length| {
        before += length;
        2 * before >= total
    });
    (lengths.len() > 1).then(|| (enough.unwrap_or(0) + 1).min(lengths.len() - 1))
}

/// Each text's first token and length.
fn firsts(lengths: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
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
    fn a_batch_says_of_each_token_text_and_tile_where_it_is() {
        let ids: Vec<u32> = (100..119).collect();
        let batch = Batch::of(&ids, &[2, 17]);
        assert_eq!((batch.tokens, batch.texts, batch.tiles), (19, 2, 3));
        assert_eq!(batch.words[..19], ids);
        let places: Vec<u32> = (0..2).chain(0..17).collect();
        assert_eq!(batch.words[batch.places_at..][..19], places);
        let tiles = [0, 2, 0, 2, 17, 0, 2, 17, 16];
        assert_eq!(batch.words[batch.tiles_at..][..9], tiles);
        assert_eq!(batch.words[batch.texts_at..], [0, 2, 2, 17]);
        for at in [batch.places_at, batch.tiles_at, batch.texts_at] {
            assert!(at.is_multiple_of(ALIGN));
        }
    }

    #[test]
    fn a_batch_is_halved_by_tokens_and_one_text_is_not() {
        assert_eq!(half(&[5, 5, 5, 5]), Some(2));
        assert_eq!(half(&[20, 1, 1]), Some(1));
        assert_eq!(half(&[1, 1, 20]), Some(2));
        assert_eq!(half(&[0, 0]), Some(1));
        assert_eq!(half(&[9]), None);
        assert_eq!(half(&[]), None);
    }
}
