//! The book's reference of flow files is made from the tables of keys.
//!
//! `FLOW_GOLDEN=write cargo test --package flow-spec --test it reference` rewrites the page.

use std::fs;
use std::path::Path;

#[test]
fn the_reference_page_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/flow-file-reference.md");
    let page = flow_spec::key_reference();
    if std::env::var_os("FLOW_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, page).unwrap();
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(
        written == page,
        "{} is not fresh ({differs:?}); run `FLOW_GOLDEN=write cargo test --package flow-spec --test it reference`",
        path.display()
    );
}
