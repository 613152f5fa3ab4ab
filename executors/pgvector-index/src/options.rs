//! Defines the options of the index, and checks their values.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flow_core::{AccessPaths, Secret};
use flow_index::TOP_K_MAX;
use serde::{Deserialize, Deserializer};

use crate::table_name::TableName;

/// Maximum number of values in a vector: in a column of the type `vector`, and with an HNSW index.
pub(crate) const DIMENSIONS_MAX: usize = 16_000;
pub(crate) const HNSW_DIMENSIONS_MAX: usize = 2_000;

/// The ranges that pgvector accepts.
const M: std::ops::RangeInclusive<u32> = 2..=100;
const EF_CONSTRUCTION: std::ops::RangeInclusive<u32> = 4..=1_000;
pub(crate) const EF_SEARCH_MAX: usize = 1_000;

/// The options of the index.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct With {
    /// The URL of the database: `postgres://user@host/database`. Default: the environment variable `PGVECTOR_URL`.
    pub url: Option<Url>,
    /// The name of the table. Default: `flow_` and the name of the executor.
    pub table: Option<TableName>,
    /// The paths that select documents to index and queries, in DocArray's notation.
    #[serde(alias = "traversal_paths", alias = "search_traversal_paths")]
    pub access_paths: AccessPaths,
    /// Number of matches for each query, unless the request sets another number.
    #[serde(alias = "limit")]
    pub top_k: usize,
    /// How the distance between two vectors is measured.
    pub metric: DistanceMetric,
    /// Number of values in each vector. Default: the number in the first vector.
    pub dimensions: Option<usize>,
    /// How the nearest vectors are found.
    pub index: IndexKind,
    /// Number of neighbours of each vector in the graph of `index: hnsw`.
    pub m: u32,
    /// Number of candidates when a vector is inserted into the graph.
    pub ef_construction: u32,
    /// Number of candidates of a search in the graph.
    pub ef_search: usize,
    /// A file with the certificates of the authorities that the client trusts. Default: Mozilla's authorities.
    pub ca: Option<PathBuf>,
    /// Maximum time to connect.
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Duration,
    /// Maximum time of one statement.
    #[serde(deserialize_with = "duration")]
    pub statement_timeout: Duration,
}

impl Default for With {
    fn default() -> Self {
        Self {
            url: None,
            table: None,
            access_paths: "@leaf".parse().expect("`@leaf` is a valid path"),
            top_k: 10,
            metric: DistanceMetric::Cosine,
            dimensions: None,
            index: IndexKind::None,
            // pgvector's own defaults.
            m: 16,
            ef_construction: 64,
            // The same number of candidates as in `vector-index`.
            ef_search: 128,
            ca: None,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
        }
    }
}

impl With {
    /// Checks the rules that the types of the options do not express.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(url) = &self.url {
            url.parse().map_err(|error| error.to_string())?;
        }
        if let Some(dimensions) = self.dimensions {
            self.check_dimensions(dimensions)?;
        }
        within("top_k", self.top_k, &(0..=TOP_K_MAX))?;
        within("m", self.m, &M)?;
        within("ef_construction", self.ef_construction, &EF_CONSTRUCTION)?;
        within("ef_search", self.ef_search, &(1..=EF_SEARCH_MAX))?;
        if self.ef_construction < 2 * self.m {
            return Err("`ef_construction` must be at least twice `m`".to_owned());
        }
        for (name, time) in [
            ("connect_timeout", self.connect_timeout),
            ("statement_timeout", self.statement_timeout),
        ] {
            if time < Duration::from_millis(1) {
                return Err(format!("`{name}` must be at least 1ms"));
            }
        }
        Ok(())
    }

    /// Checks that a table can store vectors with this number of values.
    pub(crate) fn check_dimensions(&self, dimensions: usize) -> Result<(), String> {
        let (max, of) = match self.index {
            IndexKind::None => (DIMENSIONS_MAX, "a column"),
            IndexKind::Hnsw => (HNSW_DIMENSIONS_MAX, "`index: hnsw`"),
        };
        match (1..=max).contains(&dimensions) {
            true => Ok(()),
            false => Err(format!(
                "vectors of {dimensions} values cannot be kept: {of} of pgvector takes 1 to {max}"
            )),
        }
    }
}

fn within<T: Copy + PartialOrd + fmt::Display>(
    name: &str,
    value: T,
    range: &std::ops::RangeInclusive<T>,
) -> Result<(), String> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` must be {} to {}, is {value}",
            range.start(),
            range.end()
        )),
    }
}

/// How the distance between two vectors is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DistanceMetric {
    /// The cosine of the angle between them.
    Cosine,
    /// Their inner product.
    Ip,
    /// Their Euclidean distance; less is nearer.
    L2,
}

impl DistanceMetric {
    /// Returns the name of the metric, which is also the name of a match's score.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Ip => "ip",
            Self::L2 => "l2",
        }
    }
}

/// How the nearest vectors are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// Compares the query with all vectors: exact.
    None,
    /// Searches an HNSW graph: faster, but it misses some vectors.
    Hnsw,
}

impl IndexKind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hnsw => "hnsw",
        }
    }
}

/// The URL of a database, which may contain a password. `Debug` does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(Secret);

/// The error for an invalid URL. Its message does not show the URL, which may contain a password.
#[derive(Debug, thiserror::Error)]
#[error(
    "`url` is not an address of a PostgreSQL database, such as `postgres://user@host:5432/database`: {0}"
)]
pub struct BadUrl(String);

impl Url {
    pub(crate) fn new(url: String) -> Self {
        Self(Secret::new(url))
    }

    /// Parses the URL.
    pub(crate) fn parse(&self) -> Result<tokio_postgres::Config, BadUrl> {
        let url = self.0.reveal();
        // The client also accepts `host=… password=…`. We refuse that form, because its errors quote parts of the text.
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(BadUrl("it must begin with `postgres://`".to_owned()));
        }
        // With a second `@`, a part of the password would end up in the host, which messages show.
        if url.matches('@').count() > 1 {
            return Err(BadUrl(
                "an `@` in a name or password is written `%40`".to_owned(),
            ));
        }
        let config = tokio_postgres::Config::from_str(url).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            // Causes name an option and never a value.
            BadUrl(cause.unwrap_or_else(|| "it cannot be parsed".to_owned()))
        })?;
        match config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            true => Err(BadUrl("it names no host".to_owned())),
            false => Ok(config),
        }
    }
}

impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|_| {
        serde::de::Error::custom(format!(
            "must be a time such as `30s`, is the text `{text}`"
        ))
    })
}
