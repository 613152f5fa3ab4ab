//! Finds the documents whose vectors are nearest to a query's, and keeps them through crashes.
//!
//! `index.rs` is the index in memory, `vectors.rs` and `codes.rs` its vectors, `log.rs` its file, `record.rs` the format of its
//! records. `flow-index` turns documents into entries and entries into matches; this file does first the log, then the index, then the
//! reply.

#![warn(missing_docs)]

mod codes;
mod graph;
mod index;
mod log;
mod record;
mod top;
mod vectors;

use std::collections::BTreeSet;
use std::path::PathBuf;

use flow_executor::{
    AccessPaths, CallError, Chain, Document, DocumentArray, Endpoints, Executor, Facts, KeepsState,
    LoadContext, LoadError, Parameters,
};
use flow_index::{FoundEntry, IDS, LIMIT, Search, documents_to_remove, entries, limit};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use codes::Quantization;
use index::{Index, StoredEntry};
use log::{IndexLog, LogReader};
use record::IndexChange;
use top::Hit;
use vectors::VectorConfig;

/// Maximum of `oversampling`.
const OVERSAMPLING_MAX: usize = 1000;

/// What the score of a match is called.
const SCORE: &str = "cosine";

/// Indexes documents and finds them; see its `README.md`.
#[derive(Debug)]
pub struct VectorIndex {
    index: Index,
    log: Option<IndexLog>,
    with: With,
}

/// The options of the index.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct With {
    /// Which documents are indexed, and which are queries, in DocArray's notation.
    #[serde(alias = "traversal_paths", alias = "search_traversal_paths")]
    pub access_paths: AccessPaths,
    /// Matches of a query, unless the request says otherwise.
    #[serde(alias = "limit")]
    pub top_k: usize,
    /// With fewer entries, each search looks at all of them and is exact.
    pub exact_below: usize,
    /// Compares codes of the vectors first, and reads the vectors of the nearest from the log; not given: vectors are in memory.
    pub quantization: Option<Quantization>,
    /// With `quantization`, candidates for each match whose vectors are compared; not given: as many as find nearly all matches.
    pub oversampling: Option<usize>,
    /// Values of each vector; not given: as many as the first vector has.
    pub dimensions: Option<usize>,
    /// Whether a request is on the disk before it is acknowledged, and not only with the operating system.
    pub sync: bool,
}

impl Default for With {
    fn default() -> Self {
        Self {
            access_paths: "@leaf".parse().expect("a path that there is"),
            top_k: 10,
            // Some milliseconds of one core for texts' vectors, about what encoding the query takes.
            exact_below: 20_000,
            quantization: None,
            oversampling: None,
            dimensions: None,
            sync: true,
        }
    }
}

impl With {
    /// Candidates for each match.
    fn oversampling(&self) -> Result<usize, LoadError> {
        match self.oversampling {
            Some(given) if (1..=OVERSAMPLING_MAX).contains(&given) => Ok(given),
            Some(_) => Err(LoadError::new(format!(
                "`oversampling` must be between 1 and {OVERSAMPLING_MAX}"
            ))),
            None => Ok(self.quantization.map_or(1, Quantization::oversampling)),
        }
    }
}

impl Executor for VectorIndex {
    type With = With;

    fn load(with: With, context: &LoadContext) -> Result<Self, LoadError> {
        let folder = folder(context);
        let vectors = VectorConfig {
            quantization: with.quantization,
            oversampling: with.oversampling()?,
            has_log: folder.is_some(),
        };
        let mut index = Index::new(with.exact_below, vectors);
        let log = match folder {
            Some(folder) => Some(IndexLog::open(&folder, with.sync, |change, at| {
                index.apply(change, at)
            })?),
            None => {
                tracing::warn!("there is no `workspace`: the index ends with this process");
                None
            }
        };
        index.feed_graph_fully();
        let is_old = log.as_ref().is_some_and(IndexLog::is_old);
        let mut it = Self { index, log, with };
        match is_old {
            // Records of the two versions do not go into one file.
            true => it.renew()?,
            false => it.renew_if_worn(),
        }
        Ok(it)
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch("/index", Self::index)
            .on_batch("/search", Self::search)
            .on_batch("/delete", Self::delete)
            .on("/status", Self::status)
            .accepts("/index", [])
            .accepts("/search", LIMIT)
            .accepts("/delete", [IDS])
            .accepts("/status", [])
    }

    fn facts(&self) -> Facts {
        let entries = ("entries".to_owned(), self.index.len().to_string());
        [entries].into_iter().collect()
    }

    fn keeps_state(&self) -> KeepsState {
        match self.log {
            Some(_) => KeepsState::InWorkspace,
            None => KeepsState::InMemory,
        }
    }
}

impl VectorIndex {
    /// Adds documents. A document with a known id replaces the one that was there.
    fn index(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let entries = entries(docs, &self.with.access_paths, self.dimensions())?;
        let new = entries.len();
        let changes = self.index.changes(entries);
        self.change(changes)?;
        self.index.feed_graph(new);
        self.renew_if_worn();
        Ok(())
    }

    /// Gives each query its matches.
    fn search(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let limit = limit(parameters, self.with.top_k)?;
        let index = &self.index;
        let search = Search {
            paths: &self.with.access_paths,
            dimensions: self.dimensions(),
            // What a search finds at most.
            each_max: limit.min(index.len()),
            score: SCORE,
        };
        let reader = self.reader();
        search.run(docs, |vectors, budget| {
            let found = vectors.into_iter().map(|vector| {
                let found = index.search(vector, limit, reader.as_ref())?.into_iter();
                let found = found.map(|(hit, kept)| {
                    let found = found_of(hit, kept);
                    budget.take(&found)?;
                    Ok(found)
                });
                found.collect()
            });
            found.collect()
        })
    }

    /// Takes documents out, with all their parts: those of the request, and the parameter `ids`.
    fn delete(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let ids = documents_to_remove(docs, parameters)?;
        let gone = ids.iter().flat_map(|id| self.index.of_document(id));
        let gone: BTreeSet<&str> = gone.collect();
        let changes = gone.into_iter();
        let changes = changes
            .map(|id| IndexChange::Delete(id.to_owned()))
            .collect();
        self.change(changes)?;
        self.renew_if_worn();
        Ok(())
    }

    /// How much there is, under `__results__`.
    fn status(
        &mut self,
        _: &mut DocumentArray,
        _: &Parameters,
    ) -> Result<Map<String, Value>, CallError> {
        let status = [
            ("count", json!(self.index.len())),
            ("dimensions", json!(self.index.dimensions())),
            ("in_graph", json!(self.index.in_graph())),
            ("log_bytes", json!(self.log.as_ref().map(IndexLog::len))),
        ];
        let status = status.map(|(name, value)| (name.to_owned(), value));
        Ok(status.into_iter().collect())
    }

    /// Writes down what changes, then does it.
    fn change(&mut self, changes: Vec<IndexChange>) -> Result<(), CallError> {
        if changes.is_empty() {
            return Ok(());
        }
        let at = match &mut self.log {
            Some(log) => log.append(&changes)?,
            None => vec![None; changes.len()],
        };
        let changes = changes.into_iter().zip(at);
        changes.for_each(|(change, at)| self.index.apply(change, at));
        Ok(())
    }

    /// Entries that were replaced or deleted cost memory and time at the next start. The request is in the log whether or not the
    /// log can be written anew. If it cannot, that is tried again when as many entries are gone once more.
    fn renew_if_worn(&mut self) {
        if self.index.is_worn()
            && let Err(error) = self.renew()
        {
            tracing::warn!(error = %Chain(&error), "cannot write the index's log anew; it goes on as it is");
        }
    }

    fn renew(&mut self) -> Result<(), log::LogError> {
        let reader = self.reader();
        self.index = self.index.compacted();
        if let Some(log) = &mut self.log {
            let before = log.len();
            let at = log.rewrite(self.index.puts(reader.as_ref()))?;
            self.index.move_to(at);
            log.sync_folder()?;
            tracing::info!(before, after = log.len(), "compacting the log of the index");
        }
        Ok(())
    }

    fn reader(&self) -> Option<LogReader> {
        self.log.as_ref().map(IndexLog::reader)
    }

    /// How many values a vector must have; `None` for any number.
    fn dimensions(&self) -> Option<usize> {
        self.with.dimensions.or(self.index.dimensions())
    }
}

fn found_of(hit: Hit, kept: &StoredEntry) -> FoundEntry {
    FoundEntry {
        score: hit.score,
        version: kept.version,
        document: kept.document.clone(),
    }
}

/// Where this executor keeps its files: several nodes, and shards of one, may share a workspace.
fn folder(context: &LoadContext) -> Option<PathBuf> {
    let own = context.workspace.as_ref()?.join(&context.name);
    Some(match context.shard {
        Some(shard) => own.join(shard.to_string()),
        None => own,
    })
}

#[cfg(test)]
mod tests;
