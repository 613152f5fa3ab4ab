//! The index in memory: entries, their vectors, and the graph over them.
//!
//! Below `exact_below` vectors each search looks at all of them, which is exact and still fast. Above, a
//! graph is searched, and what is not in it yet is looked at one by one: so a search never misses an entry
//! only because it is new. The graph is fed by the calls that index, a little more than they bring, so no
//! call pays for all. Quantized vectors have no graph: each search compares all their codes.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use flow_core::DocArrayVersion;
use flow_index::{IndexEntry, dot, normalised};

use crate::graph::NeighborGraph;
use crate::log::{LogError, LogReader};
use crate::record::IndexChange;
use crate::top::{Hit, TopMatches};
use crate::vectors::{IndexVectors, VectorConfig};

/// Vectors that an indexing call puts into the graph: its own, as many of those before, and these.
const CATCH_UP: usize = 256;

/// Fewest entries that are gone before the index is rebuilt.
const GONE_MIN: usize = 1024;

/// Entries and how they are found.
#[derive(Debug)]
pub(crate) struct Index {
    exact_below: usize,
    /// By place; none where an entry is gone.
    entries: Vec<Option<StoredEntry>>,
    /// By place.
    vectors: IndexVectors,
    by_id: HashMap<String, usize>,
    /// Ordered, because the parts of a document are removed one by one.
    by_parent: HashMap<String, BTreeSet<usize>>,
    graph: Option<NeighborGraph>,
    /// Places below this are in the graph.
    in_graph: usize,
}

/// An entry without its vector.
#[derive(Debug, Clone)]
pub(crate) struct StoredEntry {
    id: String,
    parent: String,
    pub(crate) version: DocArrayVersion,
    pub(crate) document: Bytes,
}

impl Index {
    pub(crate) fn new(exact_below: usize, vectors: VectorConfig) -> Self {
        Self::with_vectors(exact_below, IndexVectors::new(vectors))
    }

    /// An index of the same kind without entries.
    fn emptied(&self) -> Self {
        Self::with_vectors(self.exact_below, self.vectors.emptied())
    }

    fn with_vectors(exact_below: usize, vectors: IndexVectors) -> Self {
        Self {
            exact_below,
            entries: Vec::new(),
            vectors,
            by_id: HashMap::new(),
            by_parent: HashMap::new(),
            graph: None,
            in_graph: 0,
        }
    }

    /// Entries that a search can find.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Length of its vectors; none while it is empty.
    pub(crate) fn dimensions(&self) -> Option<usize> {
        let dimensions = self.vectors.dimensions();
        (dimensions > 0).then_some(dimensions)
    }

    /// Places that the graph knows.
    pub(crate) fn in_graph(&self) -> usize {
        self.in_graph
    }

    /// The ids of a document's entries: its own, and those of its parts.
    pub(crate) fn of_document<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a str> {
        let parts = self.by_parent.get(id).into_iter().flatten();
        let parts = parts.filter_map(|&place| self.kept(place));
        let own = self.by_id.get_key_value(id).map(|(id, _)| id.as_str());
        own.into_iter().chain(parts.map(|kept| kept.id.as_str()))
    }

    /// What has to change for these entries to be all that there is of their documents.
    pub(crate) fn changes(&self, entries: Vec<IndexEntry>) -> Vec<IndexChange> {
        let documents: HashSet<&str> = entries.iter().map(IndexEntry::document_id).collect();
        let stay: HashSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let old = documents.into_iter().flat_map(|id| self.of_document(id));
        let gone = old.filter(|id| !stay.contains(id));
        let mut gone: Vec<String> = gone.map(str::to_owned).collect();
        gone.sort_unstable();
        let gone = gone.into_iter().map(IndexChange::Delete);
        gone.chain(entries.into_iter().map(IndexChange::Put))
            .collect()
    }

    /// Applies a change. `at` is where its vector begins in the log, if there is a log and the change has a vector.
    pub(crate) fn apply(&mut self, change: IndexChange, at: Option<u64>) {
        match change {
            IndexChange::Delete(id) => self.remove(&id),
            IndexChange::Put(entry) => {
                self.remove(&entry.id);
                self.vectors.push(entry.vector, at);
                self.push(StoredEntry {
                    id: entry.id,
                    parent: entry.parent,
                    version: entry.version,
                    document: entry.document,
                });
            }
        }
    }

    /// Adds an entry, whose vector was added just before.
    fn push(&mut self, entry: StoredEntry) {
        let place = self.entries.len();
        self.by_id.insert(entry.id.clone(), place);
        if !entry.parent.is_empty() {
            let parts = self.by_parent.entry(entry.parent.clone()).or_default();
            parts.insert(place);
        }
        self.entries.push(Some(entry));
    }

    fn remove(&mut self, id: &str) {
        let Some(place) = self.by_id.remove(id) else {
            return;
        };
        if let Some(kept) = self.entries[place].take()
            && let Some(parts) = self.by_parent.get_mut(&kept.parent)
        {
            parts.remove(&place);
            if parts.is_empty() {
                self.by_parent.remove(&kept.parent);
            }
        }
        if self.by_id.is_empty() {
            // Vectors of another length may come now.
            *self = self.emptied();
        }
    }

    /// Feeds the graph, if there is to be one, after `new` entries came.
    pub(crate) fn feed_graph(&mut self, new: usize) {
        self.feed_graph_at_most(2 * new + CATCH_UP);
    }

    /// The same with everything that is not in it.
    pub(crate) fn feed_graph_fully(&mut self) {
        self.feed_graph_at_most(usize::MAX);
    }

    fn feed_graph_at_most(&mut self, places: usize) {
        if self.len() < self.exact_below || self.vectors.are_quantized() {
            return;
        }
        let from = self.in_graph;
        let to = self.entries.len().min(from.saturating_add(places));
        let mut graph = self
            .graph
            .take()
            .unwrap_or_else(|| NeighborGraph::new(self.entries.len()));
        let live = (from..to).filter(|&place| self.entries[place].is_some());
        graph.insert(live.map(|place| (place, self.vectors.in_memory(place))));
        self.graph = Some(graph);
        self.in_graph = to;
    }

    /// The nearest entries, the nearest first. `vector` has the index's dimensions.
    ///
    /// # Errors
    ///
    /// If a vector cannot be read from the log.
    pub(crate) fn search(
        &self,
        vector: Vec<f32>,
        limit: usize,
        log: Option<&LogReader>,
    ) -> Result<Vec<(Hit, &StoredEntry)>, LogError> {
        let vector = normalised(vector);
        // The graph's search makes room for as many as it is asked for.
        let limit = limit.min(self.len());
        let hits = if self.vectors.are_quantized() {
            let is_there = |place| self.kept(place).is_some();
            self.vectors.search_codes(&vector, limit, is_there, log)?
        } else {
            self.search_floats(&vector, limit)
        };
        let hits = hits.into_iter();
        Ok(hits
            .filter_map(|hit| Some((hit, self.kept(hit.place)?)))
            .collect())
    }

    /// The nearest entries by vectors that are in memory.
    fn search_floats(&self, vector: &[f32], limit: usize) -> Vec<Hit> {
        let mut top = TopMatches::new(limit);
        if let Some(graph) = &self.graph {
            let is_there = |place| self.kept(place).is_some();
            let hits = graph.search(vector, limit, is_there);
            hits.into_iter().for_each(|hit| top.offer(hit));
        }
        for place in self.in_graph..self.entries.len() {
            if self.entries[place].is_some() {
                let score = dot(vector, self.vectors.in_memory(place));
                top.offer(Hit { place, score });
            }
        }
        top.into_hits()
    }

    /// Whether most of what is kept is gone.
    pub(crate) fn is_worn(&self) -> bool {
        let gone = self.entries.len() - self.len();
        gone >= GONE_MIN && gone > self.len()
    }

    /// The index without deleted entries. Its graph is rebuilt.
    pub(crate) fn compacted(&self) -> Self {
        let mut fresh = self.emptied();
        for (place, kept) in self.entries.iter().enumerate() {
            if let Some(kept) = kept {
                fresh.vectors.push_from(&self.vectors, place);
                fresh.push(kept.clone());
            }
        }
        fresh.feed_graph_fully();
        fresh
    }

    /// What it takes to make this index from an empty one.
    pub(crate) fn puts(
        &self,
        log: Option<&LogReader>,
    ) -> impl Iterator<Item = Result<IndexChange, LogError>> {
        let kept = self.entries.iter().enumerate();
        let kept = kept.filter_map(|(place, kept)| Some((place, kept.as_ref()?)));
        kept.map(move |(place, kept)| {
            Ok(IndexChange::Put(IndexEntry {
                id: kept.id.clone(),
                parent: kept.parent.clone(),
                vector: self.vectors.original(place, log)?,
                version: kept.version,
                document: kept.document.clone(),
            }))
        })
    }

    /// Sets where the vectors begin in a new log, which consists of this index's [`puts`](Self::puts). No entry is gone.
    pub(crate) fn move_to(&mut self, at: Vec<u64>) {
        self.vectors.move_to(at);
    }

    fn kept(&self, place: usize) -> Option<&StoredEntry> {
        self.entries.get(place)?.as_ref()
    }
}

#[cfg(test)]
mod tests;
