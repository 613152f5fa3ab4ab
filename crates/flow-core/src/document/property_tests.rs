//! Properties of documents that hold for any content: merging, encoding, JSON.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A document as JSON: an id of few, so that arrays share documents, and some other fields.
fn any_document() -> impl Strategy<Value = Value> {
    let chunks = prop::collection::vec(any_leaf(), 0..3);
    (any_leaf(), chunks).prop_map(|(mut document, chunks)| {
        if !chunks.is_empty() {
            document["chunks"] = Value::Array(unique(chunks));
        }
        document
    })
}

fn any_leaf() -> impl Strategy<Value = Value> {
    let text = prop::option::of("[a-z]{0,8}");
    let uri = prop::option::of("[a-z]{1,8}");
    let tag = prop::option::of(-1000_i32..1000);
    let embedding = prop::option::of(prop::collection::vec(-8_i8..8, 1..4));
    ("[a-e]", text, uri, tag, embedding).prop_map(|(id, text, uri, tag, embedding)| {
        let mut document = json!({"id": id});
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            document["text"] = json!(text);
        }
        if let Some(uri) = uri {
            document["uri"] = json!(uri);
        }
        if let Some(tag) = tag {
            document["tags"] = json!({"tag": tag});
        }
        if let Some(embedding) = embedding {
            let values: Vec<f32> = embedding.into_iter().map(f32::from).collect();
            document["embedding"] = json!(values);
        }
        document
    })
}

/// The first document of each id.
fn unique(documents: Vec<Value>) -> Vec<Value> {
    let mut seen = std::collections::BTreeSet::new();
    let is_first = |document: &Value| seen.insert(document["id"].to_string());
    documents.into_iter().filter(is_first).collect()
}

fn any_documents() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(any_document(), 0..6).prop_map(unique)
}

fn any_version() -> impl Strategy<Value = DocArrayVersion> {
    prop_oneof![Just(DocArrayVersion::V1), Just(DocArrayVersion::V2)]
}

fn array(version: DocArrayVersion, documents: &[Value]) -> DocumentArray {
    documents
        .iter()
        .map(|document| Document::from_json(version, document).unwrap())
        .collect()
}

fn json_of(documents: &DocumentArray) -> Vec<Value> {
    documents.iter().map(|it| it.to_json().unwrap()).collect()
}

fn by_id(documents: &[Value]) -> BTreeMap<String, &Value> {
    documents
        .iter()
        .map(|it| (it["id"].to_string(), it))
        .collect()
}

fn merged(version: DocArrayVersion, first: &[Value], second: &[Value]) -> DocumentArray {
    let mut merged = array(version, first);
    merged.merge(array(version, second)).unwrap();
    merged
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_survive_encoding_and_json(version in any_version(), documents in any_documents()) {
        let array = array(version, &documents);
        let decoded = DocumentArray::decode(&array.encode()).unwrap();
        prop_assert_eq!(json_of(&decoded), json_of(&array));
        for document in decoded.iter() {
            let written = serde_json::to_string(document).unwrap();
            prop_assert_eq!(written, document.to_json().unwrap().to_string());
        }
        let again: DocumentArray = json_of(&array)
            .iter()
            .map(|it| Document::from_json(version, it).unwrap())
            .collect();
        prop_assert_eq!(json_of(&again), json_of(&array));
        let of_text: DocumentArray = json_of(&array)
            .iter()
            .map(|it| Document::from_json_text(version, &it.to_string()).unwrap())
            .collect();
        prop_assert_eq!(of_text.encode(), again.encode());
    }

    #[test]
    fn merging_keeps_the_first_array_and_adds_what_it_lacks(
        version in any_version(),
        first in any_documents(),
        second in any_documents(),
    ) {
        let result = json_of(&merged(version, &first, &second));
        let (firsts, seconds) = (by_id(&first), by_id(&second));
        let ids: Vec<String> = result.iter().map(|it| it["id"].to_string()).collect();
        let expected = first.iter().chain(&second).map(|it| it["id"].to_string());
        let mut seen = std::collections::BTreeSet::new();
        let expected: Vec<String> = expected.filter(|id| seen.insert(id.clone())).collect();
        prop_assert_eq!(ids, expected);
        for document in &result {
            let id = document["id"].to_string();
            for field in ["uri", "tags", "embedding"] {
                let own = firsts.get(&id).map_or(&Value::Null, |it| &it[field]);
                let other = seconds.get(&id).map_or(&Value::Null, |it| &it[field]);
                let value = if own.is_null() { other } else { own };
                prop_assert_eq!(&document[field], value, "{} of {}", field, id);
            }
        }
    }

    #[test]
    fn merging_twice_or_with_itself_changes_nothing(
        version in any_version(),
        first in any_documents(),
        second in any_documents(),
    ) {
        let once = merged(version, &first, &second);
        let mut twice = once.clone();
        twice.merge(array(version, &second)).unwrap();
        prop_assert_eq!(json_of(&twice), json_of(&once));
        let mut itself = once.clone();
        itself.merge(once.clone()).unwrap();
        prop_assert_eq!(json_of(&itself), json_of(&once));
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(mut documents) = DocumentArray::decode(&bytes.into()) {
            for document in documents.iter_mut() {
                drop(document.to_json());
                drop(document.chunks_mut().map(|chunks| chunks.len()));
            }
            drop(documents.encode());
        }
    }
}
