//! Merges the documents of several branches or shards.
//!
//! Pure: bytes in, bytes out. Branches are merged in the order in which `needs` names them, whichever was first,
//! so the result is always the same.

use bytes::Bytes;
use flow_core::{DocumentArray, Failure};

/// The documents of all branches as one array; [`DocumentArray::merge`] says which value of a field wins.
pub(crate) fn merge(branches: &[Option<Bytes>]) -> Result<Option<Bytes>, Failure> {
    let mut with_data = branches.iter().flatten();
    let Some(first) = with_data.next() else {
        return Ok(None);
    };
    // Branches that change nothing are common, and equal bytes are equal documents.
    let others: Vec<&Bytes> = with_data.filter(|other| *other != first).collect();
    if others.is_empty() {
        return Ok(Some(first.clone()));
    }
    let mut merged = DocumentArray::decode(first)?;
    for other in others {
        merged.merge(DocumentArray::decode(other)?)?;
    }
    Ok(Some(merged.encode()))
}

/// The documents of all parts, one after another.
pub(crate) fn concatenate(parts: &[Option<Bytes>]) -> Result<Option<Bytes>, Failure> {
    let mut with_data = parts.iter().flatten();
    let Some(first) = with_data.next() else {
        return Ok(None);
    };
    let mut all = DocumentArray::decode(first)?;
    for other in with_data {
        all.extend(DocumentArray::decode(other)?);
    }
    Ok(Some(all.encode()))
}

#[cfg(test)]
mod tests {
    use flow_core::{Code, DocArrayVersion, Document};
    use serde_json::{Value, json};

    use super::*;

    fn data(documents: &Value) -> Option<Bytes> {
        let documents = documents.as_array().unwrap().iter();
        let array: DocumentArray = documents
            .map(|document| Document::from_json(DocArrayVersion::V1, document).unwrap())
            .collect();
        Some(array.encode())
    }

    fn check(branches: &[Option<Bytes>], expected: Option<&Bytes>) {
        assert_eq!(merge(branches).unwrap().as_ref(), expected);
    }

    #[test]
    fn the_first_branch_wins() {
        let (a, b) = (
            data(&json!([{"id": "x", "text": "a"}])),
            data(&json!([{"id": "x", "text": "b"}])),
        );
        check(&[a.clone(), b.clone()], a.as_ref());
        check(&[b.clone(), a], b.as_ref());
    }

    #[test]
    fn branches_without_documents_add_nothing() {
        let a = data(&json!([{"id": "x"}]));
        check(&[None, None], None);
        check(&[None, a.clone()], a.as_ref());
        check(&[a.clone(), None], a.as_ref());
    }

    #[test]
    fn equal_branches_are_not_decoded() {
        let bad = Some(Bytes::from_static(b"\xff"));
        check(&[bad.clone(), bad.clone()], bad.as_ref());
    }

    #[test]
    fn concatenated_parts_keep_all_their_documents() {
        let (a, b) = (
            data(&json!([{"id": "x", "text": "a"}])),
            data(&json!([{"id": "x", "text": "b"}])),
        );
        let both = data(&json!([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}]));
        assert_eq!(concatenate(&[a, None, b]).unwrap(), both);
        assert_eq!(concatenate(&[None]).unwrap(), None);
    }

    #[test]
    fn invalid_documents_are_a_bad_request() {
        let branches = [
            data(&json!([{"id": "x"}])),
            Some(Bytes::from_static(b"\xff")),
        ];
        assert_eq!(merge(&branches).unwrap_err().code(), Code::BadRequest);
    }
}
