//! Reads the queries of a request, and gives them their matches.

use flow_executor::{AccessPaths, CallError, DocArrayVersion, Document, Parameters};

use crate::found_entry::FoundEntry;
use crate::match_budget::MatchBudget;
use crate::vector::values;

/// The parameters that set the number of matches for each query. If a request has both, the first one applies.
pub const LIMIT: [&str; 2] = ["top_k", "limit"];

/// Maximum number of matches that a request may ask for with each query.
pub const TOP_K_MAX: usize = 100_000;

/// Maximum number of matches of all queries in a call together. Each match is a copy of a document.
const MATCHES_MAX: usize = 1_000_000;

/// Returns the number of matches for each query: the value of a parameter in [`LIMIT`], or else `default`.
///
/// # Errors
///
/// Returns an error if the parameter is not a whole number, or exceeds [`TOP_K_MAX`].
pub fn limit(parameters: &Parameters, default: usize) -> Result<usize, CallError> {
    match parameters.first(&LIMIT)? {
        Some(limit) if limit > TOP_K_MAX => {
            let names = LIMIT.join("` or `");
            let message = format!("`{names}` must be {TOP_K_MAX} or less");
            Err(CallError::bad_request(message))
        }
        limit => Ok(limit.unwrap_or(default)),
    }
}

/// The settings that all queries of a call share.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The paths that select the queries.
    pub paths: &'a AccessPaths,
    /// The required length of each vector; `None` for any length.
    pub dimensions: Option<usize>,
    /// Maximum number of matches for each query.
    pub each_max: usize,
    /// The name of a match's score.
    pub score: &'static str,
}

impl Search<'_> {
    /// Gives each query its matches. `find` takes the vectors of all queries, and returns the entries found for each query, nearest
    /// first. It counts them in the [`MatchBudget`] as it finds them, so that it never holds more.
    ///
    /// # Errors
    ///
    /// Returns an error if a query has no vector, if its vector does not fit, if there are too many matches or bytes of them, or if
    /// `find` fails.
    pub fn run(
        self,
        docs: &mut [Document],
        find: impl FnOnce(Vec<Vec<f32>>, &mut MatchBudget) -> Result<Vec<Vec<FoundEntry>>, CallError>,
    ) -> Result<(), CallError> {
        let (mut vectors, mut budget) = (Vec::new(), MatchBudget::new());
        self.paths.try_visit::<CallError>(docs, &mut |query| {
            if self.each_max.saturating_mul(vectors.len() + 1) > MATCHES_MAX {
                let message = format!(
                    "the queries of one call get at most {MATCHES_MAX} matches; send fewer, or a smaller `top_k`"
                );
                return Err(CallError::bad_request(message));
            }
            let vector = query.embedding().ok_or_else(|| no_embedding(query))?;
            vectors.push(values(query, &vector, self.dimensions)?);
            Ok(())
        })?;
        let mut found = find(vectors, &mut budget)?.into_iter();
        self.paths.try_visit(docs, &mut |query| {
            // A path that leads to matches also selects the matches that an earlier query has just received.
            let found = found.next().ok_or_else(|| {
                CallError::bad_request(
                    "`access_paths` selects queries and their matches; select one of them",
                )
            })?;
            // The score of a match has the id of its query.
            budget.take_bytes(found.len().saturating_mul(query.id().len()))?;
            let matches = found.into_iter().map(|it| as_match(query, it, self.score));
            let matches: Vec<Document> = matches.collect::<Result<_, _>>()?;
            *query.matches_mut()? = matches;
            Ok(())
        })
    }
}

fn as_match(query: &Document, found: FoundEntry, score: &str) -> Result<Document, CallError> {
    let mut document = Document::decode(found.version, found.document)?;
    if document.version() != query.version() {
        document = translated(&document, query.version());
    }
    document.set_score(score, found.score, &query.id());
    if document.version() == DocArrayVersion::V1 {
        document.set_adjacency(query.adjacency() + 1);
    }
    Ok(document)
}

/// Converts a document into another version of DocArray. Only the fields that both versions have are kept.
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

#[cfg(test)]
mod tests {
    use flow_core::Tensor;

    use super::*;

    fn query(id: &str) -> Document {
        let mut query = Document::new();
        query.set_id(id);
        query.set_embedding(&Tensor::vector(&[1.0]));
        query
    }

    /// Searches with these queries in an index that finds `found` for each.
    fn search(queries: &mut [Document], found: &[FoundEntry]) -> Result<(), CallError> {
        let search = Search {
            paths: &AccessPaths::default(),
            dimensions: None,
            each_max: found.len(),
            score: "cosine",
        };
        search.run(queries, |vectors, budget| {
            for found in vectors.iter().flat_map(|_| found) {
                budget.take(found)?;
            }
            Ok(vec![found.to_vec(); vectors.len()])
        })
    }

    fn found(document: &Document) -> FoundEntry {
        FoundEntry {
            score: 1.0,
            version: document.version(),
            document: document.encode(),
        }
    }

    #[test]
    fn one_large_document_is_a_match_of_only_so_many_queries() {
        // The entries share the document's bytes, so this takes no memory.
        let large = found(&Document::from_text(&"x".repeat(10 << 20)));
        let mut queries: Vec<Document> = (0..10_000).map(|id| query(&id.to_string())).collect();
        assert!(search(&mut queries[..25], std::slice::from_ref(&large)).is_ok());
        let error = search(&mut queries, &[large]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the matches of this call have more than 268435456 bytes; send fewer queries, or a smaller `top_k`"
        );
    }

    #[test]
    fn the_long_id_of_a_query_is_a_part_of_only_so_many_matches() {
        let small = vec![found(&Document::from_text("x")); 300];
        let (mut long, mut short) = ([query(&"i".repeat(1 << 20))], [query("i")]);
        assert!(search(&mut short, &small).is_ok());
        assert!(search(&mut long, &small).is_err());
    }
}
