//! Whatever a hub of models answers, what becomes a path stays within its folder.
//!
//! An input is lines: a commit, the commit of a file, its etag, its length, and the name of a file.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../../crates/flow-models/src/source/hub/answers.rs"]
mod answers;

use answers::{Commit, FileHead, FileHeaders, is_plain_path};

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let commit = Commit::parse(lines.next().unwrap_or_default());
    let headers = FileHeaders {
        commit: lines.next(),
        etag: lines.next(),
        length: lines.next(),
        linked_etag: None,
    };
    if let Ok(commit) = commit {
        stays_within(commit.as_str(), 1);
        if let Ok(head) = FileHead::read(&headers, &commit) {
            stays_within(head.etag.as_str(), 1);
        }
    }
    let file = lines.next().unwrap_or_default();
    if is_plain_path(file) {
        stays_within(file, file.split('/').count());
    }
});

/// Each part of the path is a name.
fn stays_within(path: &str, parts: usize) {
    let names = Path::new(path).components();
    let names = names.map(|part| assert!(matches!(part, Component::Normal(_)), "{path:?}"));
    assert_eq!(names.count(), parts, "{path:?}");
    assert!(!path.contains(['\0', '?', '#', '%', '\\']), "{path:?}");
}
