//! The shape of a file: one subject, and a name that says which.

use crate::tidy::finding::Finding;
use crate::tidy::tree::{File, Tree};

/// Most lines of a file, without tests.
const LINES_MAX: usize = 600;

/// Names that do not say what a file contains.
const VAGUE_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources()
        .flat_map(|file| [too_long(file), vague_name(file)])
        .flatten()
        .collect()
}

fn too_long(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count() - file.test_lines();
    let long = LINES_MAX < lines && !file.is_test();
    long.then(|| {
        file.finding(
            1,
            &format!("{lines} lines without tests, {LINES_MAX} are the limit"),
        )
    })
}

fn vague_name(file: &File) -> Option<Finding> {
    let mut parts = file.path.trim_end_matches(".rs").split('/');
    let part = parts.find(|part| VAGUE_NAMES.contains(part))?;
    Some(file.finding(1, &format!("`{part}` does not say what is inside")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, text: &str, findings: usize) {
        assert_eq!(check(&Tree::of(&[(path, text)])).len(), findings, "{path}");
    }

    #[test]
    fn a_file_has_at_most_600_lines_without_its_tests() {
        let code = |lines: usize| "const A: u8 = 0;\n".repeat(lines);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", code(100));
        expect("crates/a/src/b.rs", &code(600), 0);
        expect("crates/a/src/b.rs", &code(601), 1);
        expect("crates/a/src/b.rs", &(code(600) + &tests), 0);
        expect("crates/a/src/generated/b.rs", &code(601), 0);
        expect("crates/a/src/b/tests.rs", &code(601), 0);
    }

    #[test]
    fn a_file_is_named_after_its_subject() {
        expect("crates/a/src/utils.rs", "", 1);
        expect("crates/a/src/common/pool.rs", "", 1);
        expect("crates/a/src/pool.rs", "", 0);
    }
}
