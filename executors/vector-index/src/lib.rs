//! Finds the documents whose vectors are nearest to a query's, and keeps them through crashes.
//!
//! `index.rs` is the index in memory, `log.rs` its file, `record.rs` what stands in it. This file turns
//! documents into entries and entries into matches: first the log, then the index, then the reply.

mod graph;
mod index;
mod log;
mod record;
mod top;

use std::collections::BTreeSet;
use std::path::PathBuf;

use flow_core::{EmbeddingType, Tensor};
use flow_executor::{
    AccessPaths, BadParameter, CallError, Chain, DocArrayVersion, Document, DocumentArray,
    Endpoints, Executor, Facts, KeepsState, LoadContext, LoadError, Parameters,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use index::{Index, Kept};
use log::Log;
use record::{Change, Entry};
use top::Hit;

/// What the score of a match is called.
const SCORE: &str = "cosine";

/// The parameters that say how many matches a query gets; the first one that is sent wins.
const LIMIT: [&str; 2] = ["top_k", "limit"];

/// Most values of a vector. Models make some thousand.
const DIMENSIONS_MAX: usize = 65_536;

/// Most matches of one query, and of all queries of a call together: each is a copy of a document.
const TOP_K_MAX: usize = 100_000;
const MATCHES_MAX: usize = 1_000_000;

/// The parameter that names documents to delete.
const IDS: &str = "ids";

/// Indexes documents and finds them; see its `README.md`.
#[derive(Debug)]
pub struct VectorIndex {
    index: Index,
    log: Option<Log>,
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
            dimensions: None,
            sync: true,
        }
    }
}

impl Executor for VectorIndex {
    type With = With;

    fn load(with: With, context: &LoadContext) -> Result<Self, LoadError> {
        let mut index = Index::new(with.exact_below);
        let log = match folder(context) {
            Some(folder) => Some(Log::open(&folder, with.sync, |change| index.apply(change))?),
            None => {
                tracing::warn!("there is no `workspace`: the index ends with this process");
                None
            }
        };
        index.feed_graph_fully();
        let is_old = log.as_ref().is_some_and(Log::is_old);
        let mut it = Self { index, log, with };
        match is_old {
            true => it.renew()?,
            false => it.renew_if_worn()?,
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
        let (mut entries, mut without) = (Vec::new(), 0u64);
        let mut dimensions = self.dimensions();
        self.visit(docs, &mut |doc| {
            let Some(vector) = doc.embedding() else {
                without += 1;
                return Ok(());
            };
            let entry = entry(doc, &vector, dimensions)?;
            dimensions = Some(entry.vector.len());
            entries.push(entry);
            Ok(())
        })?;
        if without > 0 {
            tracing::warn!(
                count = without,
                "documents without an embedding are not indexed"
            );
        }
        let new = entries.len();
        let changes = self.index.changes(entries);
        self.change(changes)?;
        self.index.feed_graph(new);
        Ok(self.renew_if_worn()?)
    }

    /// Gives each query its matches.
    fn search(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let limit = self.limit(parameters)?;
        let (index, dimensions) = (&self.index, self.dimensions());
        // What a search finds at most.
        let each = limit.min(index.len());
        let mut all = 0;
        self.visit(docs, &mut |query| {
            all += each;
            if all > MATCHES_MAX {
                let message = format!(
                    "the queries of one call get at most {MATCHES_MAX} matches; send fewer, or a smaller `top_k`"
                );
                return Err(CallError::bad_request(message));
            }
            let vector = query.embedding().ok_or_else(|| no_embedding(query))?;
            let vector = values(query, &vector, dimensions)?;
            let found = index.search(vector, limit);
            let matches = found.into_iter().map(|it| as_match(query, it));
            let matches: Vec<Document> = matches.collect::<Result<_, _>>()?;
            *query.matches_mut()? = matches;
            Ok(())
        })
    }

    /// Takes documents out, with all their parts: those of the request, and the parameter `ids`.
    fn delete(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let ids: Option<Vec<String>> = parameters.get(IDS).map_err(|error| bad(&error))?;
        let mut ids = ids.unwrap_or_default();
        ids.extend(docs.iter().map(Document::id));
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let gone = ids.iter().flat_map(|id| self.index.of_document(id));
        let gone: BTreeSet<&str> = gone.collect();
        let changes = gone.into_iter();
        let changes = changes.map(|id| Change::Delete(id.to_owned())).collect();
        self.change(changes)?;
        Ok(self.renew_if_worn()?)
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
            ("log_bytes", json!(self.log.as_ref().map(Log::len))),
        ];
        let status = status.map(|(name, value)| (name.to_owned(), value));
        Ok(status.into_iter().collect())
    }

    /// Writes down what changes, then does it.
    fn change(&mut self, changes: Vec<Change>) -> Result<(), CallError> {
        if changes.is_empty() {
            return Ok(());
        }
        if let Some(log) = &mut self.log {
            log.append(&changes)?;
        }
        changes
            .into_iter()
            .for_each(|change| self.index.apply(change));
        Ok(())
    }

    /// Entries that were replaced or deleted cost memory and time at the next start.
    fn renew_if_worn(&mut self) -> Result<(), log::LogError> {
        match self.index.is_worn() {
            true => self.renew(),
            false => Ok(()),
        }
    }

    fn renew(&mut self) -> Result<(), log::LogError> {
        self.index = self.index.compacted();
        if let Some(log) = &mut self.log {
            let before = log.len();
            log.rewrite(self.index.puts())?;
            tracing::info!(before, after = log.len(), "the index's log is written anew");
        }
        Ok(())
    }

    /// Calls `each` with the documents that are meant, until one fails.
    fn visit(
        &self,
        docs: &mut [Document],
        each: &mut dyn FnMut(&mut Document) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let mut outcome = Ok(());
        self.with.access_paths.visit(docs, &mut |doc| {
            if outcome.is_ok() {
                outcome = each(doc);
            }
        })?;
        outcome
    }

    /// How many values a vector must have; `None` for any number.
    fn dimensions(&self) -> Option<usize> {
        self.with.dimensions.or(self.index.dimensions())
    }

    fn limit(&self, parameters: &Parameters) -> Result<usize, CallError> {
        for name in LIMIT {
            let limit: Option<usize> = parameters.get(name).map_err(|error| bad(&error))?;
            if limit.is_some_and(|limit| limit > TOP_K_MAX) {
                let message = format!("`{name}` must be {TOP_K_MAX} or less");
                return Err(CallError::bad_request(message));
            }
            if let Some(limit) = limit {
                return Ok(limit);
            }
        }
        Ok(self.with.top_k)
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

fn entry(doc: &Document, vector: &Tensor, dimensions: Option<usize>) -> Result<Entry, CallError> {
    let id = doc.id();
    if id.is_empty() {
        return Err(CallError::bad_request("a document has no id"));
    }
    let vector = values(doc, vector, dimensions)?;
    if !doc.has_finite_scores() {
        return Err(CallError::bad_request(format!(
            "document `{id}` has a score that is not finite"
        )));
    }
    let mut kept = doc.clone();
    kept.clear_embedding();
    kept.chunks_mut()?.clear();
    kept.matches_mut()?.clear();
    Ok(Entry {
        id,
        parent: doc.parent_id(),
        vector,
        version: doc.version(),
        document: kept.encode(),
    })
}

/// A vector that fits the index.
fn values(
    doc: &Document,
    vector: &Tensor,
    dimensions: Option<usize>,
) -> Result<Vec<f32>, CallError> {
    let wrong = |what: String| {
        let id = doc.id();
        CallError::bad_request(format!("the embedding of document `{id}` {what}"))
    };
    // Checked before there are values, which may be many more than bytes were sent.
    let len = vector.len();
    if len > DIMENSIONS_MAX || (vector.buffer().is_empty() && len > 0) {
        return Err(wrong(format!(
            "has the shape of {len} values, and {} bytes of them",
            vector.buffer().len()
        )));
    }
    let values = floats(vector, dimensions).ok_or_else(|| {
        let found = vector.data_type().as_str();
        wrong(format!(
            "has values of the type `{found}`; floats, and vectors of the encoder's `embedding_type`, can be indexed"
        ))
    })?;
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return Err(wrong("is empty, or not all of it is finite".to_owned()));
    }
    match dimensions {
        Some(wanted) if wanted != values.len() => Err(wrong(format!(
            "has {} values, but the index has vectors of {wanted}",
            values.len()
        ))),
        _ => Ok(values),
    }
}

/// The floats that a vector stands for. Bytes are bits if that gives the vector the length that it must have.
fn floats(vector: &Tensor, dimensions: Option<usize>) -> Option<Vec<f32>> {
    let as_bits = EmbeddingType::of(vector)?.as_bits();
    // One byte is one number.
    let wanted = dimensions.filter(|wanted| *wanted > 1 && wanted.div_ceil(8) == vector.len());
    let (Some(bits), Some(wanted)) = (as_bits, wanted) else {
        return EmbeddingType::floats_of(vector);
    };
    let mut floats = bits.decode(vector)?;
    floats.truncate(wanted);
    Some(floats)
}

fn as_match(query: &Document, (hit, kept): (Hit, &Kept)) -> Result<Document, CallError> {
    let mut found = Document::decode(kept.version, kept.document.clone())?;
    if found.version() != query.version() {
        found = translated(&found, query.version());
    }
    found.set_score(SCORE, hit.score, &query.id());
    if found.version() == DocArrayVersion::V1 {
        found.set_adjacency(query.adjacency() + 1);
    }
    Ok(found)
}

/// What both versions of DocArray have.
fn translated(doc: &Document, version: DocArrayVersion) -> Document {
    let mut other = Document::of_version(version);
    other.set_id(&doc.id());
    other.set_text(doc.text());
    other.set_tags(&doc.tags());
    if !doc.parent_id().is_empty() {
        other.set_parent_id(&doc.parent_id());
    }
    other
}

fn no_embedding(query: &Document) -> CallError {
    let id = query.id();
    CallError::bad_request(format!(
        "document `{id}` has no embedding to search with: an encoder has to come before the index"
    ))
}

fn bad(error: &BadParameter) -> CallError {
    CallError::bad_request(Chain(error).to_string())
}

#[cfg(test)]
mod tests;
