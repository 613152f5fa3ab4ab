//! Documents with any content keep their bytes if they are not read, and reading, changing and merging them terminates.
#![no_main]

use bytes::Bytes;
use flow_core::{Document, DocumentArray};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let data = Bytes::copy_from_slice(data);
    let Ok(documents) = DocumentArray::decode(&data) else {
        return;
    };
    let raw: Vec<Bytes> = documents.iter().map(Document::encode).collect();
    let again = DocumentArray::decode(&documents.encode()).expect("our own message");
    assert!(again.iter().map(Document::encode).eq(raw), "a document changed on its way");
    for document in &documents {
        drop(document.to_json());
        drop((document.text(), document.tags(), document.tensor(), document.embedding()));
    }
    let mut changed = documents.clone();
    for document in &mut changed {
        document.set_text("x");
        drop(document.chunks_mut().map(|chunks| chunks.len()));
        assert_eq!(document.text(), "x");
    }
    drop(changed.merge(documents));
});
