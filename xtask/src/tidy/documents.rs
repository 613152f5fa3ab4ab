//! Documents for readers: a test runs what they say to type, and the files that they name exist.

use crate::tidy::finding::Finding;
use crate::tidy::tree::{File, Tree};

/// Follows the blocks of README and of the book's pages.
const PAGES_TEST: &str = "tests/it/documents.rs";

/// Paths, or beginnings of paths, of the pages that it follows.
const PAGES: &[&str] = &["README.md", "docs/src/"];

/// What a block may say it holds: the languages that the test knows. Without one, a block would not be run.
const LANGUAGES: &[&str] = &[
    "sh",
    "console",
    "yaml",
    "python",
    "rust",
    "rust,no_run",
    "text",
    "mermaid",
];

/// Endings of names that stand for a file of ours wherever it lies.
const OURS: &[&str] = &[".rs", ".md", ".proto"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let texts = tree
        .files
        .values()
        .filter(|file| file.path.ends_with(".md"));
    let mut findings: Vec<Finding> = texts.flat_map(|file| dead_names(tree, file)).collect();
    findings.extend(pages(tree).flat_map(unknown_blocks));
    findings.extend(untested(tree));
    findings
}

/// README and the pages of the book.
fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_page = |file: &&File| {
        let starts = PAGES.iter().any(|page| file.path.starts_with(page));
        starts && file.path.ends_with(".md")
    };
    tree.files.values().filter(is_page)
}

/// README, if there is no test that follows all pages.
fn untested(tree: &Tree) -> Option<Finding> {
    let readme = tree.files.get("README.md")?;
    let names = |text: &str| {
        PAGES
            .iter()
            .all(|page| text.contains(page.trim_end_matches('/')))
    };
    let tested = tree
        .files
        .get(PAGES_TEST)
        .is_some_and(|test| names(&test.text));
    (!tested).then(|| {
        readme.finding(
            1,
            &format!("no test `{PAGES_TEST}` runs the commands of all pages"),
        )
    })
}

fn unknown_blocks(page: &File) -> Vec<Finding> {
    let unknown = fences(&page.text).filter(|(_, language)| !LANGUAGES.contains(language));
    let finding = |(line, language)| {
        let languages = LANGUAGES.join(", ");
        page.finding(
            line,
            &format!("a block in `{language}`: say one of {languages}"),
        )
    };
    unknown.map(finding).collect()
}

/// Where fenced blocks open, and what they say they hold.
fn fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let fences = lines.filter_map(|(at, line)| Some((at + 1, line.trim().strip_prefix("```")?)));
    fences.step_by(2)
}

fn dead_names(tree: &Tree, file: &File) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (at, line) in prose(&file.text) {
        let dead = spans(line).filter(|span| !is_there(tree, folder, span));
        findings.extend(dead.map(|name| file.finding(at, &format!("there is no `{name}`"))));
    }
    findings
}

/// Lines outside of fenced blocks, numbered from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((at + 1, line))
    })
}

/// The text between backticks.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a span names a file that is there, or none at all.
fn is_there(tree: &Tree, folder: &str, span: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    if !span.chars().all(plain) || span.starts_with('/') {
        return true;
    }
    let top = span.split('/').next().unwrap_or_default();
    // `flows/encode.yml` begins with a folder of ours; `target/release/flow` does not.
    let from_top = span.contains('/') && tree.has(top) && tree.has(&format!("{top}/"));
    let by_name = OURS
        .iter()
        .any(|ending| span.ends_with(ending) && span != *ending);
    let suffix = format!("/{span}");
    let known = || {
        tree.files
            .keys()
            .any(|path| path == span || path.ends_with(&suffix))
    };
    match (from_top, by_name) {
        (false, false) => true,
        (true, false) => tree.has(span) || tree.has(&join(folder, span)),
        (_, true) => known(),
    }
}

/// A path seen from a folder, with its `..` worked out.
pub(super) fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, text: &str, findings: &[&str]) {
        let tree = Tree::of(&[
            (path, text),
            (
                PAGES_TEST,
                "const PAGES: &[&str] = &[\"README.md\", \"docs/src\"];",
            ),
            ("crates/flow-net/src/pool.rs", ""),
            ("flows/encode.yml", ""),
        ]);
        let found = check(&tree)
            .into_iter()
            .map(|it| format!("{} {}", it.line, it.what));
        assert_eq!(found.collect::<Vec<_>>(), findings, "{text}");
    }

    #[test]
    fn names_in_backticks_are_there() {
        expect(
            "A.md",
            "`pool.rs`, `flow-net/src/pool.rs`, `flows/encode.yml`, `flows/`",
            &[],
        );
        expect("A.md", "`lake.rs`", &["1 there is no `lake.rs`"]);
        expect(
            "A.md",
            "`flows/decode.yml`",
            &["1 there is no `flows/decode.yml`"],
        );
        expect(
            "A.md",
            "`crates/flow-gateway`",
            &["1 there is no `crates/flow-gateway`"],
        );
    }

    #[test]
    fn files_outside_the_repository_are_ignored() {
        expect(
            "A.md",
            "`flow up FLOW.yml`, `docs.jsonl`, `target/release/flow`, `/encode`",
            &[],
        );
        expect(
            "A.md",
            "`docker-compose.yml`, `1_Pooling/config.json`, `~/.cache/x.rs`",
            &[],
        );
        expect("A.md", "```sh\nls `lake.rs`\n```\n", &[]);
    }

    #[test]
    fn each_block_of_a_page_says_what_it_is() {
        let fine = "```sh\nflow up\n```\n\n```console\n$ flow\n```\n\n```rust,no_run\nx\n```\n";
        expect("README.md", fine, &[]);
        expect("docs/src/a.md", fine, &[]);
        let languages = LANGUAGES.join(", ");
        let message = |line: usize, language: &str| {
            format!("{line} a block in `{language}`: say one of {languages}")
        };
        expect("README.md", "a\n```\nflow up\n```\n", &[&message(2, "")]);
        expect(
            "docs/src/a.md",
            "```sh no-run\nx\n```\n",
            &[&message(1, "sh no-run")],
        );
        expect("tests/load/A.md", "```csv\nx\n```\n", &[]);
    }

    #[test]
    fn all_pages_have_a_test() {
        let readme = ("README.md", "hello");
        assert_eq!(check(&Tree::of(&[readme])).len(), 1);
        assert_eq!(
            check(&Tree::of(&[readme, (PAGES_TEST, "README.md")])).len(),
            1
        );
        assert_eq!(
            check(&Tree::of(&[readme, (PAGES_TEST, "README.md docs/src")])).len(),
            0
        );
    }
}
