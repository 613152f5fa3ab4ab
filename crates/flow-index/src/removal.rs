//! Collects the ids of the documents that a request deletes.

use std::collections::BTreeSet;

use flow_executor::{CallError, Document, Parameters};

/// The parameter that lists the ids of documents to delete.
pub const IDS: &str = "ids";

/// Returns the ids of the documents to delete: the ids of the request's documents, and the ids in the parameter `ids`.
///
/// # Errors
///
/// Returns an error if the parameter is not a list of strings.
pub fn documents_to_remove(
    docs: &[Document],
    parameters: &Parameters,
) -> Result<BTreeSet<String>, CallError> {
    let ids: Option<Vec<String>> = parameters.get(IDS)?;
    let own = docs.iter().map(Document::id);
    Ok(ids.unwrap_or_default().into_iter().chain(own).collect())
}
