//! Decides which texts go through the model together.
//!
//! This module only decides: lengths in, batches out. Texts are ordered by length, longest first, so that the last
//! batches are short and all workers finish at about the same time. Where an engine pads, the texts of a batch are of
//! similar length, so that little is computed for padding.

use std::num::NonZeroUsize;
use std::ops::Range;

/// Limits on the size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchLimits {
    /// Maximum tokens, including padding where the engine pads.
    pub max_tokens: NonZeroUsize,
    /// Maximum texts.
    pub max_texts: NonZeroUsize,
    /// Batches that can run at once. There are at least as many batches, if there are as many texts.
    pub workers: NonZeroUsize,
    /// Minimum tokens of a batch that is made smaller only to give each worker one.
    pub min_tokens: usize,
    /// Whether the engine pads: then each text of a batch costs as much as the longest.
    pub pads: bool,
}

/// Texts in the order in which they run, cut into batches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BatchPlan {
    /// Indices of the texts, longest first.
    pub order: Vec<usize>,
    /// The batches, as ranges of `order`.
    pub batches: Vec<Range<usize>>,
}

/// Cuts texts of these lengths, in tokens, into batches.
#[must_use]
pub(crate) fn plan_batches(lengths: &[usize], limits: BatchLimits) -> BatchPlan {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    // The sort is stable: texts of equal length keep their order.
    order.sort_by_key(|&text| std::cmp::Reverse(lengths[text]));
    let fair_share = lengths.iter().sum::<usize>().div_ceil(limits.workers.get());
    let fair_share = fair_share.max(limits.min_tokens);
    let mut batches = Vec::new();
    let mut open: Option<OpenBatch> = None;
    for (position, &text) in order.iter().enumerate() {
        let length = lengths[text];
        match &mut open {
            Some(batch) if batch.fits(length, limits, fair_share) => batch.add(length),
            _ => {
                let closed = open.replace(OpenBatch::new(position, length));
                batches.extend(closed.map(OpenBatch::range));
            }
        }
    }
    batches.extend(open.map(OpenBatch::range));
    BatchPlan { order, batches }
}

/// A batch that may still grow.
struct OpenBatch {
    start: usize,
    texts: usize,
    max_length: usize,
    /// Sum of the lengths, without padding.
    tokens: usize,
}

impl OpenBatch {
    fn new(start: usize, length: usize) -> Self {
        Self {
            start,
            texts: 1,
            max_length: length,
            tokens: length,
        }
    }

    /// Whether the batch can take a text that is not longer than those in it.
    fn fits(&self, length: usize, limits: BatchLimits, fair_share: usize) -> bool {
        let (texts, tokens) = (self.texts + 1, self.tokens + length);
        let (is_similar, cost) = if limits.pads {
            // Padding of up to an eighth costs less than another pass through the layers.
            (length * 8 >= self.max_length * 7, texts * self.max_length)
        } else {
            (true, tokens)
        };
        is_similar
            && texts <= limits.max_texts.get()
            && cost <= limits.max_tokens.get()
            && tokens <= fair_share
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

    fn limits(max_tokens: usize, workers: usize) -> BatchLimits {
        let number = |n| NonZeroUsize::new(n).unwrap();
        BatchLimits {
            max_tokens: number(max_tokens),
            max_texts: number(64),
            workers: number(workers),
            min_tokens: 0,
            pads: true,
        }
    }

    fn without_padding(limits: BatchLimits) -> BatchLimits {
        BatchLimits {
            pads: false,
            ..limits
        }
    }

    #[track_caller]
    fn check(lengths: &[usize], limits: BatchLimits, expected: &[&[usize]]) {
        let plan = plan_batches(lengths, limits);
        let lengths_of = |batch: &Range<usize>| -> Vec<usize> {
            let texts = &plan.order[batch.clone()];
            texts.iter().map(|&text| lengths[text]).collect()
        };
        let batches: Vec<Vec<usize>> = plan.batches.iter().map(lengths_of).collect();
        assert_eq!(batches, expected, "{lengths:?}");
    }

    #[test]
    fn a_batch_closes_at_exactly_max_tokens() {
        check(&[10, 10], limits(20, 1), &[&[10, 10]]);
        check(&[10, 10], limits(19, 1), &[&[10], &[10]]);
        check(&[10, 9, 9], limits(30, 1), &[&[10, 9, 9]]);
    }

    #[test]
    fn a_text_longer_than_a_batch_is_a_batch_of_its_own() {
        check(&[50, 3], limits(20, 1), &[&[50], &[3]]);
    }

    #[test]
    fn texts_of_very_different_lengths_do_not_share_a_padded_batch() {
        check(&[80, 70, 69], limits(1000, 1), &[&[80, 70], &[69]]);
    }

    #[test]
    fn texts_of_any_lengths_share_a_batch_without_padding() {
        let limits = without_padding(limits(1000, 1));
        check(&[80, 70, 69, 3], limits, &[&[80, 70, 69, 3]]);
        check(&[800, 150, 50, 1], limits, &[&[800, 150, 50], &[1]]);
    }

    #[test]
    fn there_is_a_batch_for_each_worker() {
        check(&[10; 4], limits(1000, 2), &[&[10, 10], &[10, 10]]);
        check(&[10; 3], limits(1000, 2), &[&[10], &[10], &[10]]);
        check(&[10], limits(1000, 2), &[&[10]]);
    }

    #[test]
    fn batches_are_not_cut_below_min_tokens_to_occupy_workers() {
        let limits = |min_tokens| BatchLimits {
            min_tokens,
            ..without_padding(limits(1000, 2))
        };
        check(&[10; 4], limits(40), &[&[10; 4]]);
        check(&[10; 4], limits(39), &[&[10; 3], &[10]]);
        check(&[10; 4], limits(20), &[&[10; 2], &[10; 2]]);
    }

    #[test]
    fn each_text_is_in_exactly_one_batch() {
        let lengths: Vec<usize> = (0..200).map(|n| n * 7 % 31 + 2).collect();
        let plan = plan_batches(&lengths, limits(128, 2));
        let mut order = plan.order.clone();
        order.sort_unstable();
        assert_eq!(order, (0..200).collect::<Vec<_>>());
        let covered: Vec<usize> = plan.batches.iter().cloned().flatten().collect();
        assert_eq!(covered, (0..200).collect::<Vec<_>>());
        assert_eq!(plan_batches(&[], limits(1, 1)), BatchPlan::default());
    }
}
