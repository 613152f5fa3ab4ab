//! Selects the documents that match the `when` of a node. Pure.

use bytes::Bytes;
use flow_core::query::Query;
use flow_core::{BadDocument, DocArrayVersion, Document, DocumentArray};

/// The documents that match a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Matching {
    /// All of them, or there were no documents.
    All,
    Some(Bytes),
    /// There were documents, and none matches.
    Nothing(Bytes),
}

/// The documents of an encoded array that match.
pub(crate) fn apply(when: &Query, data: Option<&Bytes>) -> Result<Matching, BadDocument> {
    let Some(data) = data else {
        return Ok(Matching::All);
    };
    let mut documents = DocumentArray::decode(data)?;
    let before = documents.len();
    documents.retain(|document| when.matches(document));
    Ok(match documents.len() {
        after if after == before => Matching::All,
        0 => Matching::Nothing(documents.encode()),
        _ => Matching::Some(documents.encode()),
    })
}

/// Whether a single encoded document matches; no document passes every condition.
pub(crate) fn matches(when: &Query, document: Option<&Bytes>) -> Result<bool, BadDocument> {
    let Some(raw) = document else {
        return Ok(true);
    };
    let version = DocArrayVersion::of(raw).unwrap_or_default();
    let document = Document::decode(version, raw.clone())?;
    Ok(when.matches(&document))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data(texts: &[&str]) -> Bytes {
        let document = |text: &&str| {
            let json = json!({"id": *text, "text": *text});
            Document::from_json(flow_core::DocArrayVersion::V1, &json).unwrap()
        };
        texts
            .iter()
            .map(document)
            .collect::<DocumentArray>()
            .encode()
    }

    #[track_caller]
    fn check(texts: &[&str], expected: &Matching) {
        let when = Query::parse(&json!({"text": {"$regex": "^q"}})).unwrap();
        assert_eq!(&apply(&when, Some(&data(texts))).unwrap(), expected);
    }

    #[test]
    fn matching_documents_keep_their_order() {
        check(&["q1", "q2"], &Matching::All);
        check(&["q1", "x", "q2"], &Matching::Some(data(&["q1", "q2"])));
        check(&["x", "y"], &Matching::Nothing(data(&[])));
        check(&[], &Matching::All);
    }

    #[test]
    fn a_request_without_documents_passes() {
        let when = Query::parse(&json!({"text": {"$exists": true}})).unwrap();
        assert_eq!(apply(&when, None).unwrap(), Matching::All);
    }

    #[test]
    fn invalid_documents_are_an_error() {
        let when = Query::parse(&json!({})).unwrap();
        assert!(apply(&when, Some(&Bytes::from_static(b"\xff"))).is_err());
    }
}
