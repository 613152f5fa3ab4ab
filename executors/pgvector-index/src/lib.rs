//! Stores documents in PostgreSQL, and finds those whose vectors are nearest to a query's with pgvector.
//!
//! Requests and replies are the same as those of `vector-index`: `flow-index` handles both. This crate stores and searches the entries.
//!
//! | File | What it does |
//! |---|---|
//! | `options.rs` | defines the options and checks their values |
//! | `settings.rs` | converts options and environment variables into the settings of a connection |
//! | `connection.rs` | connects, reconnects when the connection is lost, and applies the time limits |
//! | `tls.rs` | encrypts the connection to the database |
//! | `table.rs`, `table_name.rs` | create, fill and search the table, and check its name |
//! | `error.rs` | describes errors for callers |

#![warn(missing_docs)]

mod connection;
mod error;
mod options;
mod settings;
mod table;
mod table_name;
mod tls;

use std::collections::HashMap;
use std::sync::Arc;

use flow_executor::{
    CallError, Document, DocumentArray, Endpoints, Executor, Facts, Fork, LoadContext, LoadError,
    Parameters,
};
use flow_index::{IDS, IndexEntry, LIMIT, Search, documents_to_remove, entries, limit};
use serde_json::{Map, Value, json};
use tokio_postgres::error::SqlState;

pub use options::{BadUrl, DistanceMetric, IndexKind, Url, With};
pub use settings::{PASSWORD_VARIABLE, URL_VARIABLE};
pub use table_name::{BadTableName, TableName};

use connection::{DatabaseConnection, DatabaseSession};
use error::DatabaseError;
use settings::ConnectionSettings;
use table::IndexTable;

/// Maximum length of an id in bytes. The index of the primary key does not accept longer values.
const ID_LEN_MAX: usize = 2_000;

/// The executor that indexes and searches documents in a database; see its `README.md`.
#[derive(Debug)]
pub struct PgvectorIndex {
    connection: DatabaseConnection,
    shared: Arc<Shared>,
    /// Number of values in each vector; `None` until the table is known to exist.
    dimensions: Option<usize>,
}

/// The state that the threads of a process share.
struct Shared {
    settings: Arc<ConnectionSettings>,
    table: IndexTable,
    with: With,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("with", &self.with)
            .finish_non_exhaustive()
    }
}

impl Executor for PgvectorIndex {
    type With = With;

    fn check(with: &With) -> Result<(), LoadError> {
        with.check().map_err(LoadError::new)
    }

    fn load(with: With, context: &LoadContext) -> Result<Self, LoadError> {
        let settings = Arc::new(ConnectionSettings::new(&with, &context.environment)?);
        let name = with.table.clone();
        let mut name = name.unwrap_or_else(|| TableName::of_executor(&context.name));
        if let Some(shard) = context.shard {
            name = name.of_shard(shard);
        }
        let table = IndexTable::new(name, with.clone());
        let shared = Arc::new(Shared {
            settings,
            table,
            with,
        });
        Self::open(shared)
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

    fn fork(&self) -> Option<Fork<Self>> {
        let shared = Arc::clone(&self.shared);
        Some(Fork::new(|| Self::open(shared)))
    }

    fn facts(&self) -> Facts {
        let facts = [
            ("database", self.shared.settings.server.clone()),
            ("table", self.shared.table.name().shown()),
            ("index", self.shared.with.index.name().to_owned()),
        ];
        let facts = facts.map(|(name, value)| (name.to_owned(), value));
        facts.into_iter().collect()
    }
}

impl PgvectorIndex {
    /// Connects to the database, and finds the table or creates it if `dimensions` is set.
    fn open(shared: Arc<Shared>) -> Result<Self, LoadError> {
        let mut it = Self {
            connection: DatabaseConnection::new(Arc::clone(&shared.settings))?,
            dimensions: None,
            shared,
        };
        it.dimensions = it.ready(it.shared.with.dimensions)?;
        Ok(it)
    }

    /// Adds documents. A document replaces an existing one with the same id.
    fn index(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let known = self.known()?;
        let with = &self.shared.with;
        let entries = last_of_each(entries(docs, &with.access_paths, known)?);
        let Some(first) = entries.first() else {
            return Ok(());
        };
        entries.iter().try_for_each(check_id)?;
        if known.is_none() {
            let new = first.vector.len();
            with.check_dimensions(new).map_err(CallError::bad_request)?;
            self.make(new)?;
        }
        self.run(&async |table, session| table.put(session, &entries).await)
    }

    /// Gives each query its matches.
    fn search(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let shared = Arc::clone(&self.shared);
        let each_max = limit(parameters, shared.with.top_k)?;
        let known = self.known()?;
        let search = Search {
            paths: &shared.with.access_paths,
            dimensions: known.or(shared.with.dimensions),
            each_max,
            score: shared.with.metric.name(),
        };
        search.run(docs, |vectors, budget| match known {
            None => Ok(vec![Vec::new(); vectors.len()]),
            Some(_) => {
                let (found, used) = self.run(&async |table, session| {
                    // A search that is tried again begins with the whole budget.
                    let mut budget = budget.clone();
                    let found = table.search(session, (&vectors, each_max), &mut budget);
                    Ok((found.await?, budget))
                })?;
                *budget = used;
                Ok(found)
            }
        })
    }

    /// Deletes the request's documents and those in the parameter `ids`, with all their parts.
    fn delete(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let ids = documents_to_remove(docs, parameters)?;
        if self.known()?.is_none() {
            return Ok(());
        }
        // PostgreSQL does not store text with a NUL, so no document has such an id.
        let ids = ids.iter().filter(|id| !id.is_empty() && !id.contains('\0'));
        let ids: Vec<&str> = ids.map(String::as_str).collect();
        self.run(&async |table, session| table.remove(session, &ids).await)
    }

    /// Returns the number of entries and the size of the table, under `__results__`.
    fn status(
        &mut self,
        _: &mut DocumentArray,
        _: &Parameters,
    ) -> Result<Map<String, Value>, CallError> {
        let known = self.known()?;
        let (count, bytes) = match known {
            None => (0, 0),
            Some(_) => self.run(&async |table, session| table.size(session).await)?,
        };
        let status = [
            ("count", json!(count)),
            ("dimensions", json!(known)),
            ("table", json!(self.shared.table.name().shown())),
            ("table_bytes", json!(bytes)),
        ];
        let status = status.map(|(name, value)| (name.to_owned(), value));
        Ok(status.into_iter().collect())
    }

    /// Returns the number of values in each vector; `None` while there is no table. If this replica knows of no table, it asks the
    /// database, because another replica may have created one.
    fn known(&mut self) -> Result<Option<usize>, DatabaseError> {
        if self.dimensions.is_none() {
            self.dimensions = self.ready(self.shared.with.dimensions)?;
        }
        Ok(self.dimensions)
    }

    /// Creates the table for vectors with `dimensions` values.
    fn make(&mut self, dimensions: usize) -> Result<(), CallError> {
        self.dimensions = self.ready(Some(dimensions))?;
        match self.dimensions {
            Some(found) if found != dimensions => Err(CallError::bad_request(format!(
                "the vectors have {dimensions} values, but another replica has just made the table for vectors of {found}"
            ))),
            _ => Ok(()),
        }
    }

    fn ready(&mut self, dimensions: Option<usize>) -> Result<Option<usize>, DatabaseError> {
        let table = &self.shared.table;
        self.connection
            .run(&async |session| table.ready(session, dimensions).await)
    }

    /// Runs `work` with the table and a connection. If the table is gone, the next call looks for it again.
    fn run<T>(
        &mut self,
        work: &impl AsyncFn(&IndexTable, &DatabaseSession) -> Result<T, DatabaseError>,
    ) -> Result<T, CallError> {
        let table = &self.shared.table;
        let outcome = self
            .connection
            .run(&async |session| work(table, session).await);
        if outcome
            .as_ref()
            .is_err_and(|error| error.is(&SqlState::UNDEFINED_TABLE))
        {
            self.dimensions = None;
        }
        Ok(outcome?)
    }
}

/// Keeps the last entry with each id, in the original order.
fn last_of_each(entries: Vec<IndexEntry>) -> Vec<IndexEntry> {
    let places = entries.iter().enumerate();
    let last: HashMap<String, usize> = places.map(|(at, entry)| (entry.id.clone(), at)).collect();
    let entries = entries.into_iter().enumerate();
    let entries = entries.filter(|(at, entry)| last[&entry.id] == *at);
    entries.map(|(_, entry)| entry).collect()
}

/// Checks that PostgreSQL can store the ids of an entry.
fn check_id(entry: &IndexEntry) -> Result<(), CallError> {
    for id in [&entry.id, &entry.parent] {
        let wrong = match id {
            id if id.contains('\0') => {
                "has a NUL character, which PostgreSQL cannot keep".to_owned()
            }
            id if id.len() > ID_LEN_MAX => {
                format!(
                    "has {} bytes, but an index in PostgreSQL takes at most {ID_LEN_MAX}",
                    id.len()
                )
            }
            _ => continue,
        };
        let shown: String = id.chars().take(32).collect();
        return Err(CallError::bad_request(format!(
            "the id that begins with {shown:?} {wrong}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
