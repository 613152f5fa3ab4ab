//! The inputs of a join, for methods that take them separately.

use std::ops::Deref;

use flow_core::{Document, DocumentArray};

/// The documents of each part of a join, in the order of the flow file's `needs`. Derefs to a slice of
/// arrays.
///
/// A request that came from one node only is a join of one part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocsMatrix {
    names: Vec<String>,
    parts: Vec<DocumentArray>,
}

impl DocsMatrix {
    /// The parts, each with the node from which it came.
    #[must_use]
    pub fn new(parts: impl IntoIterator<Item = (String, DocumentArray)>) -> Self {
        let (names, parts) = parts.into_iter().unzip();
        Self { names, parts }
    }

    pub(crate) fn split(documents: Vec<Document>, parts: Vec<(String, usize)>) -> Self {
        let mut documents = documents.into_iter();
        Self::new(parts.into_iter().map(|(name, docs)| {
            let part: DocumentArray = documents.by_ref().take(docs).collect();
            (name, part)
        }))
    }

    /// The documents that came from this node, which is the last executor that the part passed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&DocumentArray> {
        self.by_name()
            .find(|(known, _)| *known == name)
            .map(|(_, part)| part)
    }

    /// Each part with the node from which it came.
    pub fn by_name(&self) -> impl Iterator<Item = (&str, &DocumentArray)> {
        self.names.iter().map(String::as_str).zip(&self.parts)
    }

    /// The parts alone.
    #[must_use]
    pub fn into_parts(self) -> Vec<DocumentArray> {
        self.parts
    }

    /// All documents, one part after another.
    #[must_use]
    pub fn into_documents(self) -> DocumentArray {
        self.parts.into_iter().flatten().collect()
    }
}

impl Deref for DocsMatrix {
    type Target = [DocumentArray];

    fn deref(&self) -> &[DocumentArray] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_index_and_by_name() {
        let documents = ["a", "b", "c"].map(Document::from_text);
        let parts = vec![
            ("left".to_owned(), 2),
            ("none".to_owned(), 0),
            ("right".to_owned(), 1),
        ];
        let matrix = DocsMatrix::split(documents.to_vec(), parts);
        assert_eq!(matrix.len(), 3);
        assert_eq!(&*matrix[0], &documents[..2]);
        assert_eq!(&**matrix.get("right").unwrap(), &documents[2..]);
        assert!(matrix.get("none").unwrap().is_empty());
        assert_eq!(matrix.get("other"), None);
        assert_eq!(&*matrix.into_documents(), documents);
    }
}
