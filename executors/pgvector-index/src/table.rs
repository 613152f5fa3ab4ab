//! Creates and checks the table of an index, and runs the statements that fill, search and delete its entries.

use std::pin::pin;

use bytes::Bytes;
use flow_core::DocArrayVersion;
use flow_index::{FoundEntry, IndexEntry, MatchBudget, MatchesTooLarge, normalised};
use futures_util::{StreamExt, stream};
use pgvector::Vector;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, RowStream};

use crate::connection::DatabaseSession;
use crate::error::DatabaseError;
use crate::options::{DistanceMetric, EF_SEARCH_MAX, IndexKind, With};
use crate::table_name::TableName;

/// Maximum number of entries, and of bytes in their documents and vectors, that one statement writes.
const ROWS_MAX: usize = 1_000;
const ROWS_BYTES_MAX: usize = 16 << 20;

/// Maximum number of queries that are sent before the first one is answered.
const PIPELINED_MAX: usize = 64;

/// Takes the lock for creating an extension, a table or an index. Replicas start at the same time, and only one may create them.
const MAKING_LOCK: &str = "SELECT pg_advisory_xact_lock(7813585664265119854)";

/// The table of an index, and the statements on it.
#[derive(Debug, Clone)]
pub(crate) struct IndexTable {
    name: TableName,
    /// The quoted name, for statements.
    quoted: String,
    /// The name of the HNSW index, without the schema; `graph_quoted` has the schema.
    graph: String,
    graph_quoted: String,
    options: With,
}

/// The description of a table in the database.
struct TableDescription {
    /// Number of values in each vector; `None` if the table has no column for vectors.
    dimensions: Option<usize>,
    comment: Option<String>,
    has_graph: bool,
}

impl IndexTable {
    pub(crate) fn new(name: TableName, options: With) -> Self {
        let graph = format!("{}_hnsw", name.own());
        Self {
            quoted: name.quoted(),
            graph_quoted: name.with_schema(&graph),
            graph,
            options,
            name,
        }
    }

    pub(crate) fn name(&self) -> &TableName {
        &self.name
    }

    /// Finds the table, or creates it if `dimensions` is known. Returns the number of values in each vector, or `None` if there is no
    /// table yet.
    pub(crate) async fn ready(
        &self,
        session: &DatabaseSession,
        dimensions: Option<usize>,
    ) -> Result<Option<usize>, DatabaseError> {
        self.add_extension(session).await?;
        let mut found = self.describe(session).await?;
        if found.is_none()
            && let Some(dimensions) = dimensions
        {
            self.make(session, dimensions).await?;
            found = self.describe(session).await?;
        }
        let Some(found) = found else { return Ok(None) };
        let dimensions = self.check(&found)?;
        if self.options.index == IndexKind::Hnsw && !found.has_graph {
            self.make_graph(session).await?;
        }
        Ok(Some(dimensions))
    }

    async fn add_extension(&self, session: &DatabaseSession) -> Result<(), DatabaseError> {
        let there = "SELECT 1 FROM pg_extension WHERE extname = 'vector'";
        let there = session.answer(session.client().query_opt(there, &[]));
        if there.await?.is_some() {
            return Ok(());
        }
        let add = format!("{MAKING_LOCK}; CREATE EXTENSION IF NOT EXISTS vector");
        let added = session.execute(&add).await;
        added.map_err(|error| {
            let missing = [
                SqlState::FEATURE_NOT_SUPPORTED,
                SqlState::UNDEFINED_FILE,
            ];
            let error = error.with_remedy(
                &missing,
                "; install pgvector on the machine of the database, for example Debian's package `postgresql-17-pgvector`",
            );
            error.with_remedy(
                &[SqlState::INSUFFICIENT_PRIVILEGE],
                "; let a superuser run `CREATE EXTENSION vector` once in this database",
            )
        })
    }

    async fn describe(
        &self,
        session: &DatabaseSession,
    ) -> Result<Option<TableDescription>, DatabaseError> {
        let text = "SELECT a.atttypmod, obj_description(c.oid, 'pg_class'), to_regclass($2) IS NOT NULL \
             FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'embedding' \
             WHERE c.oid = to_regclass($1)";
        let names: [&(dyn ToSql + Sync); 2] = [&self.quoted, &self.graph_quoted];
        let found = session.client().query_opt(text, &names);
        let Some(row) = session.answer(found).await? else {
            return Ok(None);
        };
        let read = |row: &Row| -> Result<_, tokio_postgres::Error> {
            let dimensions: Option<i32> = row.try_get(0)?;
            Ok(TableDescription {
                dimensions: dimensions.and_then(|it| it.try_into().ok()),
                comment: row.try_get(1)?,
                has_graph: row.try_get(2)?,
            })
        };
        read(&row).map(Some).map_err(|error| session.error(&error))
    }

    /// Returns the comment of a table that was created with these options.
    fn comment(&self) -> String {
        format!(
            "pgvector-index of flow, metric {}",
            self.options.metric.name()
        )
    }

    fn check(&self, found: &TableDescription) -> Result<usize, DatabaseError> {
        let table = self.name.shown();
        let comment = found.comment.as_deref().unwrap_or_default();
        let dimensions = match found.dimensions {
            Some(dimensions) if comment == self.comment() => dimensions,
            _ => {
                return Err(DatabaseError::Unfit(format!(
                    "the table `{table}` was not made for this index: its comment is `{comment}`, and not `{}`; set `metric` or `table`",
                    self.comment()
                )));
            }
        };
        match self.options.dimensions {
            Some(wanted) if wanted != dimensions => Err(DatabaseError::Unfit(format!(
                "the table `{table}` has vectors of {dimensions} values, and `dimensions` is {wanted}; change one of them, or set another `table`"
            ))),
            _ => Ok(dimensions),
        }
    }

    async fn make(
        &self,
        session: &DatabaseSession,
        dimensions: usize,
    ) -> Result<(), DatabaseError> {
        let (table, comment) = (&self.quoted, self.comment());
        // `place` orders entries at the same distance: the older one comes first.
        let statements = format!(
            "{MAKING_LOCK};
             CREATE TABLE IF NOT EXISTS {table} (
               id text PRIMARY KEY,
               parent text NOT NULL,
               place bigint GENERATED BY DEFAULT AS IDENTITY,
               docarray smallint NOT NULL,
               document bytea NOT NULL,
               embedding vector({dimensions}) NOT NULL);
             CREATE INDEX IF NOT EXISTS \"{}_parent\" ON {table} (parent) WHERE parent <> '';
             COMMENT ON TABLE {table} IS '{comment}'",
            self.name.own()
        );
        let made = session.execute(&statements).await;
        made.map_err(|error| {
            error.with_remedy(
                &[SqlState::INSUFFICIENT_PRIVILEGE],
                "; let its owner `GRANT CREATE ON SCHEMA` to the user of `url`, or name another schema in `table`",
            )
        })
    }

    async fn make_graph(&self, session: &DatabaseSession) -> Result<(), DatabaseError> {
        let operators = match self.options.metric {
            DistanceMetric::Cosine | DistanceMetric::Ip => "vector_ip_ops",
            DistanceMetric::L2 => "vector_l2_ops",
        };
        tracing::info!(table = self.name.shown(), "building the index `hnsw`");
        let statements = format!(
            "{MAKING_LOCK};
             SET LOCAL statement_timeout = 0;
             CREATE INDEX IF NOT EXISTS \"{}\" ON {} USING hnsw (embedding {operators}) WITH (m = {}, ef_construction = {})",
            self.graph, self.quoted, self.options.m, self.options.ef_construction
        );
        session.execute_unlimited(&statements).await
    }

    /// Writes entries. They replace all existing entries of their documents.
    pub(crate) async fn put(
        &self,
        session: &DatabaseSession,
        entries: &[IndexEntry],
    ) -> Result<(), DatabaseError> {
        let documents: Vec<&str> = entries.iter().map(IndexEntry::document_id).collect();
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let table = &self.quoted;
        let delete = format!(
            "DELETE FROM {table} WHERE id = ANY($1) OR id = ANY($2) OR (parent <> '' AND parent = ANY($1))"
        );
        // Another replica may write the same entry at the same time.
        let insert = format!(
            "INSERT INTO {table} (id, parent, docarray, document, embedding)
             SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bytea[], $5::vector[])
             ON CONFLICT (id) DO UPDATE SET parent = EXCLUDED.parent, place = EXCLUDED.place, docarray = EXCLUDED.docarray,
               document = EXCLUDED.document, embedding = EXCLUDED.embedding"
        );
        let work = async {
            self.change(session, &delete, &[&documents, &ids]).await?;
            for entries in portions(entries) {
                self.insert(session, &insert, entries).await?;
            }
            Ok(())
        };
        session.transaction(work).await
    }

    async fn insert(
        &self,
        session: &DatabaseSession,
        statement: &str,
        entries: &[IndexEntry],
    ) -> Result<(), DatabaseError> {
        let ids: Vec<&str> = entries.iter().map(|it| it.id.as_str()).collect();
        let parents: Vec<&str> = entries.iter().map(|it| it.parent.as_str()).collect();
        let versions: Vec<i16> = entries.iter().map(|it| number(it.version)).collect();
        let documents: Vec<&[u8]> = entries.iter().map(|it| &it.document[..]).collect();
        let vectors = entries.iter().map(|it| self.vector(it.vector.clone()));
        let vectors: Vec<Vector> = vectors.collect();
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&ids, &parents, &versions, &documents, &vectors];
        self.change(session, statement, &parameters).await
    }

    /// Deletes documents, with all their parts.
    pub(crate) async fn remove(
        &self,
        session: &DatabaseSession,
        documents: &[&str],
    ) -> Result<(), DatabaseError> {
        let delete = format!(
            "DELETE FROM {} WHERE id = ANY($1) OR (parent <> '' AND parent = ANY($1))",
            self.quoted
        );
        self.change(session, &delete, &[&documents]).await
    }

    async fn change(
        &self,
        session: &DatabaseSession,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<(), DatabaseError> {
        let statement = session.prepare(text).await?;
        let changed = session.client().execute(&statement, parameters);
        session.answer(changed).await.map(|_rows| ())
    }

    /// Finds the `limit` entries nearest to each vector, nearest first.
    pub(crate) async fn search(
        &self,
        session: &DatabaseSession,
        (vectors, limit): (&[Vec<f32>], usize),
        budget: &mut MatchBudget,
    ) -> Result<Vec<Vec<FoundEntry>>, DatabaseError> {
        self.tune(session, limit).await?;
        let operator = match self.options.metric {
            DistanceMetric::Cosine | DistanceMetric::Ip => "<#>",
            DistanceMetric::L2 => "<->",
        };
        let text = format!(
            "SELECT embedding {operator} $1, docarray, document FROM {} ORDER BY embedding {operator} $1, place LIMIT $2",
            self.quoted
        );
        let statement = &session.prepare(&text).await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let asked = stream::iter(vectors).map(async |vector| {
            let vector = self.vector(vector.clone());
            let parameters: [&(dyn ToSql + Sync); 2] = [&vector, &limit];
            session.client().query_raw(statement, parameters).await
        });
        let mut answers = asked.buffered(PIPELINED_MAX);
        let mut found = Vec::with_capacity(vectors.len());
        // The time limit of one statement applies to each query.
        while found.len() < vectors.len() {
            let rows = async {
                match next(&mut answers).await? {
                    Some(rows) => self.read(rows, budget).await,
                    None => Ok(Ok(Vec::new())),
                }
            };
            found.push(session.answer(rows).await??);
        }
        Ok(found)
    }

    /// Reads the rows of one query one by one, so that no more of them are in memory than the budget has room for.
    async fn read(
        &self,
        rows: RowStream,
        budget: &mut MatchBudget,
    ) -> Result<Result<Vec<FoundEntry>, MatchesTooLarge>, tokio_postgres::Error> {
        let (mut rows, mut all) = (pin!(rows), Vec::new());
        while let Some(row) = next(&mut rows).await? {
            let found = self.found(&row)?;
            if let Err(too_large) = budget.take(&found) {
                return Ok(Err(too_large));
            }
            all.push(found);
        }
        Ok(Ok(all))
    }

    /// Sets whether the next search uses the graph, and how many candidates it considers there.
    async fn tune(&self, session: &DatabaseSession, limit: usize) -> Result<(), DatabaseError> {
        let candidates = limit.saturating_mul(2).max(self.options.ef_search);
        // A search in the graph returns at most as many entries as it has candidates.
        let is_graph = self.options.index == IndexKind::Hnsw && candidates <= EF_SEARCH_MAX;
        match is_graph {
            true => {
                let statements =
                    format!("SET enable_indexscan = on; SET hnsw.ef_search = {candidates}");
                session.tune(candidates, &statements).await
            }
            // The table may still have a graph, for another executor or from an earlier configuration.
            false => session.tune(0, "SET enable_indexscan = off").await,
        }
    }

    fn found(&self, row: &Row) -> Result<FoundEntry, tokio_postgres::Error> {
        let (distance, version): (f64, i16) = (row.try_get(0)?, row.try_get(1)?);
        let document: Vec<u8> = row.try_get(2)?;
        Ok(FoundEntry {
            score: self.score(distance),
            version: match version {
                1 => DocArrayVersion::V1,
                _ => DocArrayVersion::V2,
            },
            document: Bytes::from(document),
        })
    }

    /// Converts a distance into the score of a match. The inner product of long vectors can overflow a float, and JSON has no infinity,
    /// so the score is clamped.
    fn score(&self, distance: f64) -> f32 {
        let score = match self.options.metric {
            // PostgreSQL sorts in ascending order, so pgvector returns the negative inner product.
            DistanceMetric::Cosine | DistanceMetric::Ip => -distance,
            DistanceMetric::L2 => distance,
        };
        #[allow(clippy::cast_possible_truncation, reason = "the values are floats")]
        let score = score as f32;
        match score.is_nan() {
            true => f32::MIN,
            false => score.clamp(f32::MIN, f32::MAX),
        }
    }

    /// Converts a vector into the form that is stored and compared. For the cosine, vectors get length 1. The cosine is then their inner
    /// product, which is also defined for zero vectors.
    fn vector(&self, vector: Vec<f32>) -> Vector {
        Vector::from(match self.options.metric {
            DistanceMetric::Cosine => normalised(vector),
            DistanceMetric::Ip | DistanceMetric::L2 => vector,
        })
    }

    /// Returns the number of entries, and the bytes of the table with its indexes.
    pub(crate) async fn size(
        &self,
        session: &DatabaseSession,
    ) -> Result<(i64, i64), DatabaseError> {
        let table = &self.quoted;
        let text = format!("SELECT count(*), pg_total_relation_size('{table}') FROM {table}");
        let row = session.client().query_one(&text, &[]);
        let row = session.answer(row).await?;
        let read = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        read(&row).map_err(|error: tokio_postgres::Error| session.error(&error))
    }
}

/// Waits for the next answer; `None` after the last one.
async fn next<T, E>(
    answers: &mut (impl stream::Stream<Item = Result<T, E>> + Unpin),
) -> Result<Option<T>, E> {
    answers.next().await.transpose()
}

fn number(version: DocArrayVersion) -> i16 {
    match version {
        DocArrayVersion::V1 => 1,
        DocArrayVersion::V2 => 2,
    }
}

/// Splits entries into portions, each of which one statement writes.
fn portions(mut entries: &[IndexEntry]) -> impl Iterator<Item = &[IndexEntry]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = entries.iter().take(ROWS_MAX).take_while(|entry| {
            bytes += entry.document.len() + entry.vector.len() * size_of::<f32>();
            bytes <= ROWS_BYTES_MAX
        });
        // An entry above the limit is a portion of its own.
        let (portion, rest) = entries.split_at(fits.count().max(1).min(entries.len()));
        entries = rest;
        (!portion.is_empty()).then_some(portion)
    })
}

#[cfg(test)]
mod tests;
