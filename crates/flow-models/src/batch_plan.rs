//! Decides which texts go through the model together.
//!
//! Only decides: lengths in, chunks out. Texts are taken by length, longest first, so that the last chunks to
//! run are short ones, and all lanes finish at about the same time. Where an engine pads, texts of a chunk
//! are about as long as each other: then next to nothing is computed for padding.

use std::num::NonZeroUsize;
use std::ops::Range;

/// How large a chunk may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Tokens, with padding where the engine pads.
    pub tokens_max: NonZeroUsize,
    /// Texts.
    pub texts_max: NonZeroUsize,
    /// How many chunks can run at once. There are at least so many, if there are so many texts.
    pub lanes: NonZeroUsize,
    /// Tokens below which a chunk is not cut only to have one for each lane.
    pub tokens_min: usize,
    /// Whether each text of a chunk costs as much as the longest.
    pub pads: bool,
}

/// Texts in the order in which they run, cut into chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Numbers of the texts, longest first.
    pub order: Vec<usize>,
    /// Ranges of `order`.
    pub chunks: Vec<Range<usize>>,
}

/// Cuts texts of these lengths into chunks.
#[must_use]
pub(crate) fn plan(lengths: &[usize], limits: Limits) -> Plan {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    // Stable: texts of one length stay in the order they came in.
    order.sort_by_key(|&text| std::cmp::Reverse(lengths[text]));
    let share = lengths.iter().sum::<usize>().div_ceil(limits.lanes.get());
    let share = share.max(limits.tokens_min);
    let mut chunks = Vec::new();
    let mut open: Option<Chunk> = None;
    for (at, &text) in order.iter().enumerate() {
        let length = lengths[text];
        match &mut open {
            Some(chunk) if chunk.has_room(length, limits, share) => chunk.add(length),
            _ => chunks.extend(open.replace(Chunk::of(at, length)).map(Chunk::range)),
        }
    }
    chunks.extend(open.map(Chunk::range));
    Plan { order, chunks }
}

/// A chunk that may still grow.
struct Chunk {
    start: usize,
    texts: usize,
    longest: usize,
    /// Without padding.
    tokens: usize,
}

impl Chunk {
    fn of(start: usize, length: usize) -> Self {
        Self {
            start,
            texts: 1,
            longest: length,
            tokens: length,
        }
    }

    /// Whether a text of this length belongs here; none is longer than those before.
    fn has_room(&self, length: usize, limits: Limits, share: usize) -> bool {
        let (texts, tokens) = (self.texts + 1, self.tokens + length);
        let (is_alike, cost) = if limits.pads {
            // Up to an eighth of padding costs less than another pass through the layers.
            (length * 8 >= self.longest * 7, texts * self.longest)
        } else {
            (true, tokens)
        };
        is_alike
            && texts <= limits.texts_max.get()
            && cost <= limits.tokens_max.get()
            && tokens <= share
    }

    fn add(&mut self, length: usize) {
        self.texts += 1;
        self.tokens += length;
    }

    fn range(self) -> Range<usize> {
        self.start..self.start + self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(tokens_max: usize, lanes: usize) -> Limits {
        let number = |n| NonZeroUsize::new(n).unwrap();
        Limits {
            tokens_max: number(tokens_max),
            texts_max: number(64),
            lanes: number(lanes),
            tokens_min: 0,
            pads: true,
        }
    }

    fn without_padding(limits: Limits) -> Limits {
        Limits {
            pads: false,
            ..limits
        }
    }

    fn check(lengths: &[usize], limits: Limits, wanted: &[&[usize]]) {
        let plan = plan(lengths, limits);
        let chunks: Vec<Vec<usize>> = plan
            .chunks
            .iter()
            .map(|chunk| {
                plan.order[chunk.clone()]
                    .iter()
                    .map(|&text| lengths[text])
                    .collect()
            })
            .collect();
        assert_eq!(chunks, wanted, "{lengths:?}");
    }

    #[test]
    fn a_chunk_closes_at_exactly_its_tokens() {
        check(&[10, 10], limits(20, 1), &[&[10, 10]]);
        check(&[10, 10], limits(19, 1), &[&[10], &[10]]);
        check(&[10, 9, 9], limits(30, 1), &[&[10, 9, 9]]);
    }

    #[test]
    fn a_text_longer_than_a_chunk_goes_alone() {
        check(&[50, 3], limits(20, 1), &[&[50], &[3]]);
    }

    #[test]
    fn lengths_that_differ_much_do_not_share_a_chunk() {
        check(&[80, 70, 69], limits(1000, 1), &[&[80, 70], &[69]]);
    }

    #[test]
    fn where_nothing_is_padded_any_lengths_share_a_chunk() {
        let limits = without_padding(limits(1000, 1));
        check(&[80, 70, 69, 3], limits, &[&[80, 70, 69, 3]]);
        check(&[800, 150, 50, 1], limits, &[&[800, 150, 50], &[1]]);
    }

    #[test]
    fn there_is_work_for_each_lane() {
        check(&[10; 4], limits(1000, 2), &[&[10, 10], &[10, 10]]);
        check(&[10; 3], limits(1000, 2), &[&[10], &[10], &[10]]);
        check(&[10], limits(1000, 2), &[&[10]]);
    }

    #[test]
    fn where_small_chunks_do_not_pay_lanes_go_without() {
        let limits = |tokens_min| Limits {
            tokens_min,
            ..without_padding(limits(1000, 2))
        };
        check(&[10; 4], limits(40), &[&[10; 4]]);
        check(&[10; 4], limits(39), &[&[10; 3], &[10]]);
        check(&[10; 4], limits(20), &[&[10; 2], &[10; 2]]);
    }

    #[test]
    fn each_text_runs_once_and_no_text_none() {
        let lengths: Vec<usize> = (0..200).map(|n| n * 7 % 31 + 2).collect();
        let plan = plan(&lengths, limits(128, 2));
        let mut order = plan.order.clone();
        order.sort_unstable();
        assert_eq!(order, (0..200).collect::<Vec<_>>());
        let covered: Vec<usize> = plan.chunks.iter().cloned().flatten().collect();
        assert_eq!(covered, (0..200).collect::<Vec<_>>());
        assert_eq!(super::plan(&[], limits(1, 1)), Plan::default());
    }
}
