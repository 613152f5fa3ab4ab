//! Converts documents of a request into entries of an index.

use bytes::Bytes;
use flow_core::Tensor;
use flow_executor::{AccessPaths, CallError, DocArrayVersion, Document};

use crate::vector::values;

/// One document in an index, with its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexEntry {
    /// The id of the document; never empty.
    pub id: String,
    /// The id of the document that this entry is a part of; empty if the entry is a whole document.
    pub parent: String,
    /// The vector.
    pub vector: Vec<f32>,
    /// The version of DocArray in which [`document`](Self::document) is encoded.
    pub version: DocArrayVersion,
    /// The encoded document that a search returns, without its vector, chunks and matches.
    pub document: Bytes,
}

impl IndexEntry {
    /// Returns the id of the whole document: the parent's id for a part, otherwise the entry's own id.
    #[must_use]
    pub fn document_id(&self) -> &str {
        match self.parent.is_empty() {
            true => &self.id,
            false => &self.parent,
        }
    }
}

/// Converts the documents that the paths select into entries. Documents without an embedding are skipped with a warning.
///
/// `dimensions` is the required length of each vector. If it is `None`, the first vector sets the length.
///
/// # Errors
///
/// Returns an error if a document has no id, a non-finite score, or a vector that does not fit the index.
pub fn entries(
    docs: &mut [Document],
    paths: &AccessPaths,
    mut dimensions: Option<usize>,
) -> Result<Vec<IndexEntry>, CallError> {
    let (mut entries, mut without) = (Vec::new(), 0u64);
    paths.try_visit::<CallError>(docs, &mut |doc| {
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
    Ok(entries)
}

fn entry(
    doc: &Document,
    vector: &Tensor,
    dimensions: Option<usize>,
) -> Result<IndexEntry, CallError> {
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
    Ok(IndexEntry {
        id,
        parent: doc.parent_id(),
        vector,
        version: doc.version(),
        document: kept.encode(),
    })
}
