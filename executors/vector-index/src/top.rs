//! Vectors in a row, and which of them are nearest to another. Pure arithmetic.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Sums kept apart in a product, so that they can be added side by side.
const LANES: usize = 16;

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

/// The nearest so far, at most so many.
#[derive(Debug)]
pub(crate) struct Top {
    limit: usize,
    hits: BinaryHeap<Hit>,
}

impl Top {
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

/// The product of two vectors of the same length; of two whose length is 1, their cosine.
pub(crate) fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let rest: f32 = ones
        .remainder()
        .iter()
        .zip(others.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in ones.zip(others) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    rest + sums.iter().sum::<f32>()
}

/// The same direction with length 1; zeros stay as they are.
pub(crate) fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    let length = dot(&vector, &vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_the_older_wins_a_tie() {
        let mut top = Top::new(3);
        for (place, score) in [0.1, 0.9, 0.5, 0.9, -1.0].into_iter().enumerate() {
            top.offer(Hit { place, score });
        }
        let places: Vec<usize> = top.into_hits().iter().map(|hit| hit.place).collect();
        assert_eq!(places, [1, 3, 2]);
        let mut none = Top::new(0);
        none.offer(Hit {
            place: 0,
            score: 1.0,
        });
        assert!(none.into_hits().is_empty());
    }

    #[test]
    fn products_of_every_length_are_right() {
        for len in [0, 1, 15, 16, 17, 33] {
            #[allow(clippy::cast_precision_loss, reason = "small whole numbers")]
            let one: Vec<f32> = (0..len).map(|it| it as f32).collect();
            let expected: f32 = one.iter().map(|value| value * 2.0).sum();
            let twos = vec![2.0; len];
            assert!((dot(&one, &twos) - expected).abs() < 1e-3, "{len}");
        }
    }

    #[test]
    fn a_vector_gets_the_length_one_unless_it_is_nothing() {
        assert_eq!(normalised(vec![3.0, 4.0]), [0.6, 0.8]);
        assert_eq!(normalised(vec![0.0, 0.0]), [0.0, 0.0]);
    }
}
