//! Documentation of public items: each library asks the compiler for it, and the report counts the items that lack it.

use crate::tidy::finding::Finding;
use crate::tidy::source::{Token, lines_with};
use crate::tidy::tree::{File, Tree};

/// The attribute that makes the compiler look.
const ATTRIBUTE: &str = "# ! [ warn ( missing_docs ) ]";

/// Words that begin an item after `pub`. Modules have their documentation in their own files.
const ITEMS: &[&str] = &[
    "async", "const", "enum", "extern", "fn", "static", "struct", "trait", "type", "union",
    "unsafe",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let libraries = libraries(tree).filter(|file| file.path.ends_with("/src/lib.rs"));
    let unchecked = libraries.filter(|file| lines_with(file.code(), ATTRIBUTE).is_empty());
    unchecked
        .map(|file| file.finding(1, "`#![warn(missing_docs)]` is missing"))
        .collect()
}

/// The public items of libraries without documentation, as `file:line`.
pub(super) fn undocumented(tree: &Tree) -> Vec<String> {
    let files = libraries(tree);
    let places = files.flat_map(|file| {
        let lines = undocumented_items(file.code()).into_iter();
        lines.map(|line| format!("{}:{line}", file.path))
    });
    places.collect()
}

/// The sources of all libraries, without tests and generated code.
fn libraries(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_library = |file: &&File| {
        let folder = file.path.split("/src/").next().unwrap_or_default();
        let in_folder = |top| folder.starts_with(top);
        (in_folder("crates/") || in_folder("executors/"))
            && !file.is_test()
            && tree.has(&format!("{folder}/src/lib.rs"))
    };
    tree.sources().filter(is_library)
}

/// The lines of public items and fields without documentation. `pub(crate)` is not public.
fn undocumented_items(code: &[Token]) -> Vec<usize> {
    let text = |at: usize| code.get(at).map_or("", |token| token.text.as_str());
    let is_item = |at: usize| ITEMS.contains(&text(at + 1)) || text(at + 2) == ":";
    let items = (0..code.len()).filter(|at| text(*at) == "pub" && is_item(*at));
    items
        .filter(|at| !is_documented(&code[..*at]))
        .map(|at| code[at].line)
        .collect()
}

/// Whether one of the attributes at the end of the code is documentation. In a macro, a repetition may stand for them.
fn is_documented(mut before: &[Token]) -> bool {
    while let Some(last) = before.last() {
        match last.text.as_str() {
            "]" => {
                let Some(open) = opening(before) else {
                    return false;
                };
                if before.get(open + 1).is_some_and(|it| it.text == "doc") {
                    return true;
                }
                before = &before[..open.saturating_sub(1)];
            }
            "*" => return true,
            _ => return false,
        }
    }
    false
}

/// The bracket that the last token closes.
fn opening(code: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate().rev() {
        match token.text.as_str() {
            "]" | ")" | "}" => depth += 1,
            "[" | "(" | "{" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(text: &str, lines: &[usize]) {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#![warn(missing_docs)]"),
            ("crates/a/src/b.rs", text),
        ]);
        let expected: Vec<String> = lines
            .iter()
            .map(|line| format!("crates/a/src/b.rs:{line}"))
            .collect();
        assert_eq!(undocumented(&tree), expected, "{text}");
    }

    #[test]
    fn public_items_without_documentation_are_found() {
        expect("pub fn a() {}", &[1]);
        expect("/// A.\npub fn a() {}", &[]);
        expect(
            "/// A.\n#[must_use]\n#[derive(Debug, Clone)]\npub struct A;",
            &[],
        );
        expect("#[must_use]\npub fn a() {}", &[2]);
        expect(
            "/// A.\npub struct A {\n    pub b: u8,\n    /// C.\n    pub c: u8,\n}",
            &[3],
        );
        expect(
            "pub(crate) fn a() {}\npub use b::c;\npub mod d;\nfn e() {}",
            &[],
        );
        expect(
            "macro_rules! a { ($(#[$d:meta])*) => { $(#[$d])* pub struct A; } }",
            &[],
        );
        expect("#[cfg(test)]\nmod tests { pub fn a() {} }", &[]);
    }

    #[test]
    fn each_library_asks_the_compiler_for_documentation() {
        let count = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        assert_eq!(count("crates/a/src/lib.rs", "//! A.\n"), 1);
        assert_eq!(count("executors/a/src/lib.rs", "//! A.\n"), 1);
        assert_eq!(count("tests/src/lib.rs", "//! A.\n"), 0);
        assert_eq!(count("crates/a/src/lib.rs", "#![warn(missing_docs)]\n"), 0);
        let of_generated = "mod a { #![allow(missing_docs, reason = \"generated\")] }";
        assert_eq!(count("crates/a/src/lib.rs", of_generated), 1);
    }
}
