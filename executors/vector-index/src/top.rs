//! Keeps the nearest entries, up to a limit. Pure.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A place among the vectors, and how near it is: the cosine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hit {
    pub(crate) place: usize,
    pub(crate) score: f32,
}

impl Eq for Hit {}

impl Ord for Hit {
    /// The nearer is less, so a heap's greatest is the one to give up first. The older wins a tie.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The nearest so far, up to a limit.
#[derive(Debug)]
pub(crate) struct TopMatches {
    limit: usize,
    hits: BinaryHeap<Hit>,
}

impl TopMatches {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            hits: BinaryHeap::new(),
        }
    }

    pub(crate) fn offer(&mut self, hit: Hit) {
        if self.hits.len() < self.limit {
            self.hits.push(hit);
        } else if self.hits.peek().is_some_and(|worst| hit < *worst) {
            self.hits.pop();
            self.hits.push(hit);
        }
    }

    /// The nearest first.
    pub(crate) fn into_hits(self) -> Vec<Hit> {
        self.hits.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_the_older_wins_a_tie() {
        let mut top = TopMatches::new(3);
        for (place, score) in [0.1, 0.9, 0.5, 0.9, -1.0].into_iter().enumerate() {
            top.offer(Hit { place, score });
        }
        let places: Vec<usize> = top.into_hits().iter().map(|hit| hit.place).collect();
        assert_eq!(places, [1, 3, 2]);
        let mut none = TopMatches::new(0);
        none.offer(Hit {
            place: 0,
            score: 1.0,
        });
        assert!(none.into_hits().is_empty());
    }
}
