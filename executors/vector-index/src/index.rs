//! The index in memory: entries, their vectors in one row, and the graph over them.
//!
//! Below `exact_below` vectors each search looks at all of them, which is exact and still fast. Above, a
//! graph is searched, and what is not in it yet is looked at one by one: so a search never misses an entry
//! only because it is new. The graph is fed by the calls that index, a little more than they bring, so no
//! call pays for all.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use flow_core::DocArrayVersion;
use flow_index::{IndexEntry, dot, normalised};

use crate::graph::NeighborGraph;
use crate::record::IndexChange;
use crate::top::{Hit, TopMatches};

/// Vectors that an indexing call puts into the graph: its own, as many of those before, and these.
const CATCH_UP: usize = 256;

/// Fewest entries that are gone before the index is rebuilt.
const GONE_MIN: usize = 1024;

/// Entries and how they are found.
#[derive(Debug)]
pub(crate) struct Index {
    exact_below: usize,
    dimensions: usize,
    /// By place; none where an entry is gone.
    entries: Vec<Option<StoredEntry>>,
    /// By place, one after another, each of length 1.
    vectors: Vec<f32>,
    by_id: HashMap<String, usize>,
    /// Ordered, because the parts of a document are removed one by one.
    by_parent: HashMap<String, BTreeSet<usize>>,
    graph: Option<NeighborGraph>,
    /// Places below this are in the graph.
    in_graph: usize,
}

/// An entry without its vector.
#[derive(Debug)]
pub(crate) struct StoredEntry {
    id: String,
    parent: String,
    pub(crate) version: DocArrayVersion,
    pub(crate) document: Bytes,
}

impl Index {
    pub(crate) fn new(exact_below: usize) -> Self {
        Self {
            exact_below,
            dimensions: 0,
            entries: Vec::new(),
            vectors: Vec::new(),
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
        (self.dimensions > 0).then_some(self.dimensions)
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

    pub(crate) fn apply(&mut self, change: IndexChange) {
        match change {
            IndexChange::Delete(id) => self.remove(&id),
            IndexChange::Put(entry) => {
                self.remove(&entry.id);
                self.put(entry);
            }
        }
    }

    fn put(&mut self, entry: IndexEntry) {
        let place = self.entries.len();
        self.dimensions = entry.vector.len();
        self.vectors.extend(normalised(entry.vector));
        self.by_id.insert(entry.id.clone(), place);
        if !entry.parent.is_empty() {
            let parts = self.by_parent.entry(entry.parent.clone()).or_default();
            parts.insert(place);
        }
        self.entries.push(Some(StoredEntry {
            id: entry.id,
            parent: entry.parent,
            version: entry.version,
            document: entry.document,
        }));
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
            *self = Self::new(self.exact_below);
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
        if self.len() < self.exact_below {
            return;
        }
        let from = self.in_graph;
        let to = self.entries.len().min(from.saturating_add(places));
        let mut graph = self
            .graph
            .take()
            .unwrap_or_else(|| NeighborGraph::new(self.entries.len()));
        let live = (from..to).filter(|&place| self.entries[place].is_some());
        graph.insert(live.map(|place| (place, self.vector(place))));
        self.graph = Some(graph);
        self.in_graph = to;
    }

    /// The nearest entries, the nearest first. `vector` has the index's dimensions.
    pub(crate) fn search(&self, vector: Vec<f32>, limit: usize) -> Vec<(Hit, &StoredEntry)> {
        let vector = normalised(vector);
        // The graph's search makes room for as many as it is asked for.
        let limit = limit.min(self.len());
        let mut top = TopMatches::new(limit);
        if let Some(graph) = &self.graph {
            let is_there = |place| self.kept(place).is_some();
            let hits = graph.search(&vector, limit, is_there);
            hits.into_iter().for_each(|hit| top.offer(hit));
        }
        for place in self.in_graph..self.entries.len() {
            if self.entries[place].is_some() {
                let score = dot(&vector, self.vector(place));
                top.offer(Hit { place, score });
            }
        }
        let hits = top.into_hits().into_iter();
        hits.filter_map(|hit| Some((hit, self.kept(hit.place)?)))
            .collect()
    }

    /// Whether most of what is kept is gone.
    pub(crate) fn is_worn(&self) -> bool {
        let gone = self.entries.len() - self.len();
        gone >= GONE_MIN && gone > self.len()
    }

    /// The index without deleted entries. Its graph is rebuilt.
    pub(crate) fn compacted(&self) -> Self {
        let mut fresh = Self::new(self.exact_below);
        self.puts().for_each(|change| fresh.apply(change));
        fresh.feed_graph_fully();
        fresh
    }

    /// What it takes to make this index from an empty one.
    pub(crate) fn puts(&self) -> impl Iterator<Item = IndexChange> {
        self.entries.iter().enumerate().filter_map(|(place, kept)| {
            let kept = kept.as_ref()?;
            Some(IndexChange::Put(IndexEntry {
                id: kept.id.clone(),
                parent: kept.parent.clone(),
                vector: self.vector(place).to_vec(),
                version: kept.version,
                document: kept.document.clone(),
            }))
        })
    }

    fn kept(&self, place: usize) -> Option<&StoredEntry> {
        self.entries.get(place)?.as_ref()
    }

    fn vector(&self, place: usize) -> &[f32] {
        &self.vectors[place * self.dimensions..][..self.dimensions]
    }
}

#[cfg(test)]
mod tests;
