//! What a search finds in an index.

use bytes::Bytes;
use flow_executor::DocArrayVersion;

/// An entry that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundEntry {
    /// The score of the entry for the query.
    pub score: f32,
    /// The version of DocArray in which [`document`](Self::document) is encoded.
    pub version: DocArrayVersion,
    /// The encoded document, as it is stored.
    pub document: Bytes,
}
