//! The order in which the client sent its documents, for flows whose branches get only some of them.
//!
//! Pure. Documents go back to the places they had; those that a node made come after them, in the order it
//! made them. One pass over the documents each time, however many they are.

use std::collections::HashMap;

use bytes::Bytes;
use flow_core::{BadDocument, DocumentArray};

/// Where each document stood when it came.
#[derive(Debug, Default)]
pub(crate) struct Order(HashMap<String, usize>);

impl Order {
    pub(crate) fn of(data: Option<&Bytes>) -> Result<Self, BadDocument> {
        let documents = data.map(DocumentArray::decode).transpose()?;
        let documents = documents.iter().flatten();
        let places = documents.enumerate().map(|(place, it)| (it.id(), place));
        Ok(Self(places.collect()))
    }

    /// The same documents in this order; the same bytes if they are in it.
    pub(crate) fn restore(&self, data: Option<Bytes>) -> Result<Option<Bytes>, BadDocument> {
        let Some(data) = data else { return Ok(None) };
        let documents = DocumentArray::decode(&data)?;
        let after_all = self.0.len();
        let place = |id: String| self.0.get(&id).copied().unwrap_or(after_all);
        let places: Vec<usize> = documents.iter().map(|it| place(it.id())).collect();
        if places.is_sorted() {
            return Ok(Some(data));
        }
        let mut slots: Vec<Vec<_>> = vec![Vec::new(); after_all + 1];
        for (document, place) in documents.into_iter().zip(places) {
            slots[place].push(document);
        }
        let sorted: DocumentArray = slots.into_iter().flatten().collect();
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
    fn check(sent: &[&str], came: &[&str], expected: &[&str]) {
        let order = Order::of(data(sent).as_ref()).unwrap();
        let restored = order.restore(data(came)).unwrap().unwrap();
        let restored = DocumentArray::decode(&restored).unwrap();
        let ids: Vec<String> = restored.iter().map(Document::id).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn documents_stand_where_the_client_had_them_and_new_ones_behind() {
        check(&["a", "b", "c"], &["c", "a", "b"], &["a", "b", "c"]);
        check(&["a", "b", "c"], &["c", "a"], &["a", "c"]);
        check(&["a", "b"], &["x", "b", "y", "a"], &["a", "b", "x", "y"]);
        check(&["a", "b"], &["b", "a", "b"], &["a", "b", "b"]);
        check(&[], &["x", "y"], &["x", "y"]);
        check(&["a"], &[], &[]);
    }

    #[test]
    fn what_is_in_order_is_not_written_anew() {
        let came = data(&["a", "c", "new"]);
        let order = Order::of(data(&["a", "b", "c"]).as_ref()).unwrap();
        let restored = order.restore(came.clone()).unwrap();
        assert_eq!(
            restored.unwrap().as_ptr(),
            came.unwrap().as_ptr(),
            "the same bytes"
        );
        assert_eq!(order.restore(None).unwrap(), None);
    }
}
