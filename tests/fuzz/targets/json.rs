//! Whatever JSON a client sends as a document, it is one or an error, and a document has the same JSON after its way
//! through the protocol.
//!
//! The first byte of an input says of which version the documents are.
#![no_main]

use flow_core::{DocArrayVersion, Document, DocumentArray};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let Some((version, text)) = input.split_first() else {
        return;
    };
    let version = match version % 2 {
        0 => DocArrayVersion::V1,
        _ => DocArrayVersion::V2,
    };
    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        return;
    };
    let Ok(document) = Document::from_json(version, &value) else {
        return;
    };
    let array: DocumentArray = [document].into_iter().collect();
    let decoded = DocumentArray::decode(&array.encode()).expect("our own message");
    // Values that JSON does not have, such as numbers that are not finite, are errors.
    let Ok(json) = array[0].to_json() else {
        return;
    };
    assert_eq!(decoded[0].to_json().expect("the same document"), json);
    let again = Document::from_json(version, &json).expect("our own JSON");
    assert_eq!(again.to_json().expect("it was JSON before"), json);
});
