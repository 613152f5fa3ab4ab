//! Restores the order in which the client sent its documents, for flows whose branches get only some of them.
//!
//! Pure. Documents return to their original positions. Documents that a node made follow, in the order in which
//! it made them. Each call makes one pass over the documents.

use std::collections::HashMap;

use bytes::Bytes;
use flow_core::{BadDocument, DocumentArray};

/// The position of each document in the request, by its id.
#[derive(Debug, Default)]
pub(crate) struct DocumentOrder(HashMap<String, usize>);

impl DocumentOrder {
    pub(crate) fn of(data: Option<&Bytes>) -> Result<Self, BadDocument> {
        let documents = data.map(DocumentArray::decode).transpose()?;
        let documents = documents.iter().flatten();
        let positions = documents.enumerate().map(|(at, it)| (it.id(), at));
        Ok(Self(positions.collect()))
    }

    /// The same documents in this order; the same bytes if they are in order already.
    pub(crate) fn restore(&self, data: Option<Bytes>) -> Result<Option<Bytes>, BadDocument> {
        let Some(data) = data else { return Ok(None) };
        let documents = DocumentArray::decode(&data)?;
        let end = self.0.len();
        let position = |id: String| self.0.get(&id).copied().unwrap_or(end);
        let positions: Vec<usize> = documents.iter().map(|it| position(it.id())).collect();
        if positions.is_sorted() {
            return Ok(Some(data));
        }
        let mut buckets: Vec<Vec<_>> = vec![Vec::new(); end + 1];
        for (document, position) in documents.into_iter().zip(positions) {
            buckets[position].push(document);
        }
        let sorted: DocumentArray = buckets.into_iter().flatten().collect();
        Ok(Some(sorted.encode()))
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Document;

    use super::*;

    fn data(ids: &[&str]) -> Option<Bytes> {
        let document = |id: &&str| {
            let mut document = Document::from_text("t");
            document.set_id(id);
            document
        };
        Some(ids.iter().map(document).collect::<DocumentArray>().encode())
    }

    #[track_caller]
    fn check(sent: &[&str], made: &[&str], expected: &[&str]) {
        let order = DocumentOrder::of(data(sent).as_ref()).unwrap();
        let restored = order.restore(data(made)).unwrap().unwrap();
        let restored = DocumentArray::decode(&restored).unwrap();
        let ids: Vec<String> = restored.iter().map(Document::id).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn documents_return_to_their_positions_and_new_ones_follow() {
        check(&["a", "b", "c"], &["c", "a", "b"], &["a", "b", "c"]);
        check(&["a", "b", "c"], &["c", "a"], &["a", "c"]);
        check(&["a", "b"], &["x", "b", "y", "a"], &["a", "b", "x", "y"]);
        check(&["a", "b"], &["b", "a", "b"], &["a", "b", "b"]);
        check(&[], &["x", "y"], &["x", "y"]);
        check(&["a"], &[], &[]);
    }

    #[test]
    fn documents_in_order_are_not_encoded_again() {
        let made = data(&["a", "c", "new"]);
        let order = DocumentOrder::of(data(&["a", "b", "c"]).as_ref()).unwrap();
        let restored = order.restore(made.clone()).unwrap();
        assert_eq!(
            restored.unwrap().as_ptr(),
            made.unwrap().as_ptr(),
            "the same bytes"
        );
        assert_eq!(order.restore(None).unwrap(), None);
    }
}
