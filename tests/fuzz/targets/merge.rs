//! Whatever two arrays of documents hold, merging them keeps what the first has, adds what it lacks, and ends.
//!
//! Arrays are made from the input by their structure, so that documents have ids in common, at every depth.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::{Arbitrary, Unstructured};
use flow_core::{DocArrayVersion, Document, DocumentArray};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

/// Levels of chunks and matches.
const DEPTH_MAX: usize = 5;

/// Two arrays of the same version.
#[derive(Debug)]
struct Arrays {
    version: DocArrayVersion,
    first: Vec<Value>,
    second: Vec<Value>,
}

impl<'a> Arbitrary<'a> for Arrays {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let version = match input.arbitrary()? {
            true => DocArrayVersion::V1,
            false => DocArrayVersion::V2,
        };
        Ok(Self {
            version,
            first: documents(input, DEPTH_MAX)?,
            second: documents(input, DEPTH_MAX)?,
        })
    }
}

/// Documents with different ids.
fn documents(input: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Vec<Value>> {
    let mut documents = Vec::new();
    let mut ids = BTreeSet::new();
    for _ in 0..input.int_in_range(0..=4)? {
        let id: u8 = input.int_in_range(0..=5)?;
        if ids.insert(id) {
            documents.push(document(input, id, depth)?);
        }
    }
    Ok(documents)
}

fn document(input: &mut Unstructured<'_>, id: u8, depth: usize) -> arbitrary::Result<Value> {
    let mut fields = Map::from_iter([("id".to_owned(), json!(id.to_string()))]);
    let mut field = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    if input.arbitrary()? {
        let text: u8 = input.arbitrary()?;
        field("text", json!(format!("t{text}")));
    }
    if input.arbitrary()? {
        field("uri", json!(format!("u{}", input.arbitrary::<u8>()?)));
    }
    if input.arbitrary()? {
        let values: Vec<i8> = input.arbitrary()?;
        field(
            "embedding",
            json!(
                values
                    .iter()
                    .take(4)
                    .map(|&it| f32::from(it))
                    .collect::<Vec<_>>()
            ),
        );
    }
    if input.arbitrary()? {
        field("tags", json!({"k": input.arbitrary::<i16>()?}));
    }
    for name in ["chunks", "matches"] {
        if depth > 0 && input.ratio(1, 3)? {
            let below = documents(input, depth - 1)?;
            if !below.is_empty() {
                field(name, Value::Array(below));
            }
        }
    }
    Ok(Value::Object(fields))
}

fn array(version: DocArrayVersion, documents: &[Value]) -> Option<DocumentArray> {
    let documents = documents
        .iter()
        .map(|it| Document::from_json(version, it).ok());
    documents.collect()
}

fn by_id(array: &DocumentArray) -> BTreeMap<String, Value> {
    let entry = |it: &Document| (it.id(), it.to_json().expect("it was made from JSON"));
    array.iter().map(entry).collect()
}

fuzz_target!(|arrays: Arrays| {
    let version = arrays.version;
    let both = array(version, &arrays.first).zip(array(version, &arrays.second));
    let Some((first, second)) = both else {
        return;
    };
    let (firsts, seconds) = (by_id(&first), by_id(&second));
    let mut merged = first.clone();
    merged.merge(second.clone()).expect("both can be read");
    let decoded = DocumentArray::decode(&merged.encode()).expect("our own message");
    let found = by_id(&decoded);
    let ids: BTreeSet<_> = firsts.keys().chain(seconds.keys()).collect();
    assert_eq!(
        found.keys().collect::<BTreeSet<_>>(),
        ids,
        "a document is lost or new"
    );
    assert_eq!(merged.len(), ids.len(), "a document is there twice");
    for (id, document) in &found {
        for name in ["uri", "tags", "embedding"] {
            let own = firsts.get(id).and_then(|it| it.get(name));
            let other = seconds.get(id).and_then(|it| it.get(name));
            assert_eq!(document.get(name), own.or(other), "`{name}` of `{id}`");
        }
    }
    // What is there already adds nothing.
    let mut again = merged.clone();
    again.merge(second).expect("both can be read");
    assert_eq!(by_id(&again), found, "a second merge changes something");
});
