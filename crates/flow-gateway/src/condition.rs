//! Which documents a node gets: those that its `when` is true of. Pure.

use bytes::Bytes;
use flow_core::query::Query;
use flow_core::{BadDocument, DocumentArray};

/// What a condition leaves of some documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// All of them, or none were there.
    All,
    Some(Bytes),
    /// Nothing of what was there.
    Nothing(Bytes),
}

pub(crate) fn apply(when: &Query, data: Option<&Bytes>) -> Result<Left, BadDocument> {
    let Some(data) = data else {
        return Ok(Left::All);
    };
    let mut documents = DocumentArray::decode(data)?;
    let before = documents.len();
    documents.retain(|document| when.matches(document));
    Ok(match documents.len() {
        after if after == before => Left::All,
        0 => Left::Nothing(documents.encode()),
        _ => Left::Some(documents.encode()),
    })
}

#[cfg(test)]
mod tests {
    use flow_core::Document;
    use serde_json::json;

    use super::*;

    fn data(texts: &[&str]) -> Bytes {
        let document = |text: &&str| {
            let json = json!({"id": *text, "text": *text});
            Document::from_json(flow_core::Flavour::V1, &json).unwrap()
        };
        texts
            .iter()
            .map(document)
            .collect::<DocumentArray>()
            .encode()
    }

    #[track_caller]
    fn check(texts: &[&str], expected: &Left) {
        let when = Query::parse(&json!({"text": {"$regex": "^q"}})).unwrap();
        assert_eq!(&apply(&when, Some(&data(texts))).unwrap(), expected);
    }

    #[test]
    fn only_what_matches_is_left_in_its_order() {
        check(&["q1", "q2"], &Left::All);
        check(&["q1", "x", "q2"], &Left::Some(data(&["q1", "q2"])));
        check(&["x", "y"], &Left::Nothing(data(&[])));
        check(&[], &Left::All);
    }

    #[test]
    fn a_request_without_documents_is_not_held_back() {
        let when = Query::parse(&json!({"text": {"$exists": true}})).unwrap();
        assert_eq!(apply(&when, None).unwrap(), Left::All);
    }

    #[test]
    fn bytes_that_are_no_documents_are_told() {
        let when = Query::parse(&json!({})).unwrap();
        assert!(apply(&when, Some(&Bytes::from_static(b"\xff"))).is_err());
    }
}
