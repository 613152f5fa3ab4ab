//! A graph that finds near vectors without looking at all of them (HNSW).
//!
//! The graph is `hnsw_rs`'s. It only grows: what was deleted stays in it and is passed over, until the index
//! is rebuilt.

use flow_index::dot;
use hnsw_rs::prelude::{Distance, Hnsw};

use crate::top::Hit;

/// Neighbours of a vector, and candidates while it is put in. Usual values for text embeddings: recall
/// above 0.95 at ten of a million.
const NEIGHBOURS: usize = 24;
const CANDIDATES: usize = 200;

/// Layers; more would stay empty below billions of vectors.
const LAYERS: usize = 16;

/// Fewest candidates of a search.
const SEARCH_MIN: usize = 128;

/// How far two vectors of length 1 are from each other.
#[derive(Clone, Copy, Default)]
struct Cosine;

impl Distance<f32> for Cosine {
    fn eval(&self, one: &[f32], other: &[f32]) -> f32 {
        // Rounding must not make it negative: the graph would panic.
        (1.0 - dot(one, other)).max(0.0)
    }
}

/// The vectors that have been put in, by their places.
pub(crate) struct NeighborGraph {
    inner: Hnsw<'static, f32, Cosine>,
}

impl std::fmt::Debug for NeighborGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let points = self.inner.get_nb_point();
        f.debug_struct("Graph").field("points", &points).finish()
    }
}

impl NeighborGraph {
    /// An empty graph that expects this many vectors.
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            inner: Hnsw::new(NEIGHBOURS, expected, LAYERS, CANDIDATES, Cosine),
        }
    }

    /// Puts vectors in, on all cores.
    pub(crate) fn insert<'a>(&mut self, vectors: impl Iterator<Item = (usize, &'a [f32])>) {
        let vectors: Vec<(&[f32], usize)> = vectors.map(|(place, it)| (it, place)).collect();
        self.inner.parallel_insert_slice(&vectors);
    }

    /// The nearest `limit` of those that `is_meant`.
    pub(crate) fn search(
        &self,
        vector: &[f32],
        limit: usize,
        is_meant: impl Fn(usize) -> bool,
    ) -> Vec<Hit> {
        let candidates = SEARCH_MIN.max(limit.saturating_mul(2));
        let filter = |place: &usize| is_meant(*place);
        let found = self
            .inner
            .search_filter(vector, limit, candidates, Some(&filter));
        let hits = found.into_iter().map(|neighbour| Hit {
            place: neighbour.d_id,
            score: 1.0 - neighbour.distance,
        });
        hits.collect()
    }
}
