//! Whatever an access path says, it is an error or selects documents, and selecting them ends.
//!
//! An input is a path, a zero byte, and documents.
#![no_main]

use bytes::Bytes;
use flow_core::{AccessPaths, DocumentArray};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let path = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let Ok(paths) = path.parse::<AccessPaths>() else {
        return;
    };
    let documents = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    let Ok(mut documents) = DocumentArray::decode(&documents) else {
        return;
    };
    let mut visited = 0_usize;
    let selected = paths.visit(&mut documents, &mut |document| {
        visited += 1;
        document.set_text("x");
    });
    if selected.is_ok() {
        let mut again = DocumentArray::decode(&documents.encode()).expect("our own message");
        let mut again_visited = 0;
        let selected = paths.visit(&mut again, &mut |document| {
            assert_eq!(document.text(), "x", "a document was not changed");
            again_visited += 1;
        });
        selected.expect("what was selected before");
        assert_eq!(
            again_visited, visited,
            "other documents are selected after a change"
        );
    }
});
