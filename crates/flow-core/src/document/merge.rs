//! Merges documents that several branches changed, as a join does.
//!
//! Documents with equal ids are the same document. A field that is set keeps its value; a field that is not set gets
//! that of the other document. Chunks and matches are merged in the same way. So the first array wins, and the caller
//! decides which one is first.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::BytesMut;

use super::wire::{Field, Fields};
use super::{BadDocument, DocArrayVersion, Document, DocumentArray, v1, v2};

impl DocumentArray {
    /// Adds what `other` has and this array has not: fields of the documents in both, and, at the end, the
    /// documents that only `other` has.
    ///
    /// # Errors
    ///
    /// If chunks or matches cannot be decoded.
    pub fn merge(&mut self, other: Self) -> Result<(), BadDocument> {
        merge(&mut self.documents, vec![other.documents])
    }
}

/// Merges arrays into `own`, one after another. Each document is completed once, with all documents of its id: the time
/// is linear in the bytes, however many of them there are.
fn merge(own: &mut Vec<Document>, arrays: Vec<Vec<Document>>) -> Result<(), BadDocument> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(own.len());
    let mut with_places = 0;
    let mut same: BTreeMap<usize, Vec<Document>> = BTreeMap::new();
    for array in arrays {
        // Documents of one array do not complete each other, but those of the next array complete them.
        let new = own.iter().enumerate().skip(with_places);
        places.extend(new.map(|(place, document)| (document.id(), place)));
        with_places = own.len();
        for other in array {
            match places.get(&other.id()) {
                Some(&place) => same.entry(place).or_default().push(other),
                None => own.push(other),
            }
        }
    }
    same.into_iter()
        .try_for_each(|(place, others)| own[place].complete(others))
}

/// What two fields have in common of which a document has only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(u32),
    Name(&'a [u8]),
}

/// The key of a field; `None` for nested documents.
fn key<'a>(version: DocArrayVersion, field: &Field<'a>) -> Option<Key<'a>> {
    match version {
        DocArrayVersion::V1 => v1::merge_key(field).map(Key::Number),
        DocArrayVersion::V2 => v2::merge_key(field).map(Key::Name),
    }
}

impl Document {
    /// Adds the fields that this document does not have, and merges the documents nested in all of them.
    fn complete(&mut self, mut others: Vec<Self>) -> Result<(), BadDocument> {
        // Most branches change few documents, or only fields that an earlier branch has set.
        others.retain(|other| other.message() != self.message());
        let (missing, has_documents_inside) = self.missing(&others);
        if missing.is_empty() && !has_documents_inside {
            return Ok(());
        }
        let mut raw = BytesMut::from(&*self.message());
        raw.extend_from_slice(&missing);
        let mut whole = Self {
            depth: self.depth,
            ..Self::decode(self.version, raw.freeze())?
        };
        for inside in [Self::chunks_mut, Self::matches_mut] {
            let mut arrays = Vec::new();
            for other in &mut others {
                arrays.push(std::mem::take(inside(other)?));
            }
            if arrays.iter().any(|array| !array.is_empty()) {
                merge(inside(&mut whole)?, arrays)?;
            }
        }
        *self = whole;
        Ok(())
    }

    /// The encoded fields that the others have and this document has not, those of the first that has them; and whether
    /// there are documents nested in the others.
    fn missing(&self, others: &[Self]) -> (BytesMut, bool) {
        let own = self.message();
        let others: Vec<Cow<'_, [u8]>> = others.iter().map(Self::message).collect();
        let fields = |message| Fields::of(message).filter_map(Result::ok);
        let mut known: HashSet<Key<'_>> = fields(&own)
            .filter_map(|it| key(self.version, &it))
            .collect();
        let (mut missing, mut has_documents_inside) = (BytesMut::new(), false);
        for other in &others {
            let mut new = Vec::new();
            for field in fields(other) {
                match key(self.version, &field) {
                    None => has_documents_inside = true,
                    Some(key) if known.contains(&key) => {}
                    Some(key) => {
                        missing.extend_from_slice(field.whole);
                        new.push(key);
                    }
                }
            }
            // A field that is repeated within a document is one field.
            known.extend(new);
        }
        (missing, has_documents_inside)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn array(version: DocArrayVersion, documents: &Value) -> DocumentArray {
        let documents = documents.as_array().unwrap().iter();
        documents
            .map(|value| Document::from_json(version, value).unwrap())
            .collect()
    }

    /// The same in both versions.
    #[track_caller]
    fn check(own: &Value, other: &Value, expected: &Value) {
        for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
            let mut merged = array(version, own);
            merged.merge(array(version, other)).unwrap();
            let merged: Vec<Value> = merged
                .iter()
                .map(|document| document.to_json().unwrap())
                .collect();
            assert_eq!(&Value::Array(merged), expected, "{version:?}");
        }
    }

    #[test]
    fn fields_of_both_branches_are_combined() {
        check(
            &json!([{"id": "a", "text": "t"}, {"id": "b"}]),
            &json!([{"id": "b", "text": "u"}, {"id": "a", "tags": {"k": 1}}]),
            &json!([{"id": "a", "text": "t", "tags": {"k": 1}}, {"id": "b", "text": "u"}]),
        );
    }

    #[test]
    fn a_field_that_is_set_keeps_its_value() {
        check(
            &json!([{"id": "a", "text": "first", "embedding": [1.0]}]),
            &json!([{"id": "a", "text": "second", "embedding": [2.0]}]),
            &json!([{"id": "a", "text": "first", "embedding": [1.0]}]),
        );
    }

    #[test]
    fn a_document_that_only_one_branch_has_is_kept() {
        check(
            &json!([{"id": "a"}]),
            &json!([{"id": "c"}, {"id": "a"}]),
            &json!([{"id": "a"}, {"id": "c"}]),
        );
    }

    #[test]
    fn chunks_are_merged_by_their_ids_too() {
        check(
            &json!([{"id": "a", "chunks": [{"id": "c", "text": "t"}]}]),
            &json!([{"id": "a", "chunks": [{"id": "c", "tags": {"k": 1}}, {"id": "d"}]}]),
            &json!([{"id": "a", "chunks": [{"id": "c", "text": "t", "tags": {"k": 1}}, {"id": "d"}]}]),
        );
    }

    #[test]
    fn only_one_of_text_blob_and_tensor_is_kept() {
        let mut merged = array(DocArrayVersion::V1, &json!([{"id": "a", "text": "t"}]));
        merged
            .merge(array(
                DocArrayVersion::V1,
                &json!([{"id": "a", "blob": "AAAA"}]),
            ))
            .unwrap();
        assert_eq!((merged[0].text().as_str(), merged[0].blob()), ("t", None));
    }

    #[test]
    fn many_fields_and_many_documents_of_one_id_take_linear_time() {
        let field = |number: u32| {
            let mut out = BytesMut::new();
            super::super::wire::put(&mut out, number, b"x");
            out
        };
        let with = |numbers: std::ops::Range<u32>| {
            let mut raw = BytesMut::from(&b"\x0a\x01a"[..]);
            numbers.for_each(|number| raw.extend_from_slice(&field(number)));
            Document::decode(DocArrayVersion::V1, raw.freeze()).unwrap()
        };
        // Quadratic work would be minutes, even without optimization.
        let started = std::time::Instant::now();
        let mut own: DocumentArray = [with(100..100_000)].into_iter().collect();
        let other: DocumentArray = [with(100_000..200_000)].into_iter().collect();
        own.merge(other).unwrap();
        let one_each = (200_000..230_000).map(|number| with(number..number + 1));
        own.merge(one_each.collect()).unwrap();
        assert_eq!(Fields::of(&own[0].encode()).count(), 1 + 229_900);
        assert!(started.elapsed() < std::time::Duration::from_secs(10));
    }
}
