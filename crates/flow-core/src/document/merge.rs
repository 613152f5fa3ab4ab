//! Merges documents that several branches changed, as a join does.
//!
//! Documents with equal ids are the same document. A field that is set keeps its value; a field that is not set gets
//! that of the other document. Chunks and matches are merged in the same way. So the first array wins, and the caller
//! decides which one is first.

use std::collections::HashMap;

use bytes::BytesMut;

use super::wire::Fields;
use super::{BadDocument, Document, DocumentArray, Flavour, v1, v2};

impl DocumentArray {
    /// Adds what `other` has and this array has not: fields of the documents in both, and, at the end, the
    /// documents that only `other` has.
    ///
    /// # Errors
    ///
    /// If chunks or matches cannot be decoded.
    pub fn merge(&mut self, other: Self) -> Result<(), BadDocument> {
        merge(&mut self.documents, other.documents)
    }
}

fn merge(own: &mut Vec<Document>, others: Vec<Document>) -> Result<(), BadDocument> {
    let places: HashMap<String, usize> = own
        .iter()
        .enumerate()
        .map(|(place, document)| (document.id(), place))
        .collect();
    for other in others {
        match places.get(&other.id()) {
            Some(&place) => own[place].complete(other)?,
            None => own.push(other),
        }
    }
    Ok(())
}

impl Document {
    /// Adds the fields that this document does not have, and merges the documents nested in both.
    fn complete(&mut self, mut other: Self) -> Result<(), BadDocument> {
        // Most branches change few documents, or only fields that an earlier branch has set.
        if self.message() == other.message() {
            return Ok(());
        }
        let missing = other.fields_missing_in(self);
        if missing.is_empty() && !other.has_documents_inside() {
            return Ok(());
        }
        let mut raw = BytesMut::from(&*self.message());
        for field in missing {
            raw.extend_from_slice(&field);
        }
        let mut whole = Self::decode(self.flavour, raw.freeze())?;
        for inside in [Self::chunks_mut, Self::matches_mut] {
            let others = std::mem::take(inside(&mut other)?);
            if !others.is_empty() {
                merge(inside(&mut whole)?, others)?;
            }
        }
        *self = whole;
        Ok(())
    }

    fn has_documents_inside(&self) -> bool {
        let message = self.message();
        let mut fields = Fields::of(&message).filter_map(Result::ok);
        fields.any(|field| match self.flavour {
            Flavour::V1 => v1::merge_key(&field).is_none(),
            Flavour::V2 => v2::merge_key(&field).is_none(),
        })
    }

    /// The encoded fields that this document has and `other` has not, without nested documents.
    fn fields_missing_in(&self, other: &Self) -> Vec<Vec<u8>> {
        let (own, others) = (self.encode(), other.encode());
        let key = |field: &super::wire::Field<'_>| match self.flavour {
            Flavour::V1 => v1::merge_key(field),
            Flavour::V2 => v2::merge_key(field),
        };
        let known: Vec<_> = Fields::of(&others)
            .filter_map(Result::ok)
            .map(|f| key(&f))
            .collect();
        let own = Fields::of(&own).filter_map(Result::ok);
        let missing = own.filter(|field| key(field).is_some() && !known.contains(&key(field)));
        missing.map(|field| field.whole.to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn array(flavour: Flavour, documents: &Value) -> DocumentArray {
        let documents = documents.as_array().unwrap().iter();
        documents
            .map(|value| Document::from_json(flavour, value).unwrap())
            .collect()
    }

    /// The same in both versions.
    #[track_caller]
    fn check(own: &Value, other: &Value, expected: &Value) {
        for flavour in [Flavour::V1, Flavour::V2] {
            let mut merged = array(flavour, own);
            merged.merge(array(flavour, other)).unwrap();
            let merged: Vec<Value> = merged
                .iter()
                .map(|document| document.to_json().unwrap())
                .collect();
            assert_eq!(&Value::Array(merged), expected, "{flavour:?}");
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
        let mut merged = array(Flavour::V1, &json!([{"id": "a", "text": "t"}]));
        merged
            .merge(array(Flavour::V1, &json!([{"id": "a", "blob": "AAAA"}])))
            .unwrap();
        assert_eq!((merged[0].text().as_str(), merged[0].blob()), ("t", None));
    }
}
