//! What is written for readers: it names only files that are there, and what it tells to type is run.

use crate::tidy::Finding;
use crate::tidy::source::lines_with;
use crate::tidy::tree::{File, Tree};

/// Extracts each `sh` and `console` block of the README and runs it.
const README_TEST: &str = "tests/it/readme.rs";

/// Languages of README's blocks. With one it does not know, or with none, a block would not be run.
const LANGUAGES: &[&str] = &[
    "sh",
    "console",
    "yaml",
    "json",
    "jsonl",
    "python",
    "rust",
    "toml",
    "text",
    "mermaid",
    "dockerfile",
];

/// What third parties link, so every public item of it is documented.
const SDK: &str = "crates/flow-executor/src/lib.rs";

/// Endings of names that stand for a file of ours wherever it lies.
const OURS: &[&str] = &[".rs", ".md", ".proto"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let texts = tree
        .files
        .values()
        .filter(|file| file.path.ends_with(".md"));
    let mut findings: Vec<Finding> = texts.flat_map(|file| dead_names(tree, file)).collect();
    findings.extend(readme(tree));
    findings.extend(sdk(tree));
    findings
}

fn sdk(tree: &Tree) -> Option<Finding> {
    let file = tree.files.get(SDK)?;
    let documented = !lines_with(file.code(), "missing_docs").is_empty();
    (!documented).then(|| file.finding(1, "`#![warn(missing_docs)]` is missing"))
}

fn readme(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.files.get("README.md") else {
        return Vec::new();
    };
    let run = tree
        .files
        .get(README_TEST)
        .is_some_and(|test| test.text.contains("README.md"));
    let unrun =
        (!run).then(|| file.finding(1, &format!("no test `{README_TEST}` runs its commands")));
    let strange = fences(&file.text).filter(|(_, language)| !LANGUAGES.contains(language));
    let strange = strange.map(|(line, language)| {
        file.finding(
            line,
            &format!(
                "a block in `{language}`: say one of {}",
                LANGUAGES.join(", ")
            ),
        )
    });
    unrun.into_iter().chain(strange).collect()
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
        let links = links(line).filter(|link| !leads_to_file(tree, folder, link));
        let spans = spans(line).filter(|span| !is_there(tree, folder, span));
        let dead = links.chain(spans);
        findings.extend(dead.map(|name| file.finding(at, &format!("there is no `{name}`"))));
    }
    findings
}

/// Lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((at + 1, line))
    })
}

/// Targets of links, `](target)`, that are no addresses and no places in the same text.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains(':') && !target.starts_with('#'));
    files.map(|target| target.split('#').next().unwrap_or_default())
}

fn leads_to_file(tree: &Tree, folder: &str, link: &str) -> bool {
    tree.has(&join(folder, link))
}

/// What stands between backticks.
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
fn join(folder: &str, path: &str) -> String {
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
            (README_TEST, "const README: &str = \"README.md\";"),
            ("crates/flow-net/src/pool.rs", ""),
            ("flows/encode.yml", ""),
        ]);
        let found = check(&tree)
            .into_iter()
            .map(|it| format!("{} {}", it.line, it.what));
        assert_eq!(found.collect::<Vec<_>>(), findings, "{text}");
    }

    #[test]
    fn links_lead_somewhere() {
        expect(
            "README.md",
            "[it](flows/encode.yml) [web](https://x.y/z) [here](#top)",
            &[],
        );
        expect(
            "README.md",
            "a\n[it](flows/decode.yml)",
            &["2 there is no `flows/decode.yml`"],
        );
        expect(
            "tests/load/README.md",
            "[it](../../flows/encode.yml#part)",
            &[],
        );
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
    fn what_is_no_file_of_ours_is_left_alone() {
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
    fn each_block_of_the_readme_says_what_it_is() {
        expect(
            "README.md",
            "```sh\nflow up\n```\n\n```console\n$ flow\n```\n",
            &[],
        );
        let found = check(&Tree::of(&[
            (README_TEST, "README.md"),
            ("README.md", "a\n```\nflow up\n```\n"),
        ]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
        let found = check(&Tree::of(&[
            (README_TEST, "README.md"),
            ("README.md", "```sh no-run\nx\n```\n"),
        ]));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn the_readme_has_a_test() {
        assert_eq!(check(&Tree::of(&[("README.md", "hello")])).len(), 1);
    }

    #[test]
    fn the_sdk_is_documented() {
        assert_eq!(check(&Tree::of(&[(SDK, "//! An SDK.\n")])).len(), 1);
        assert_eq!(
            check(&Tree::of(&[(SDK, "#![warn(missing_docs)]\n")])).len(),
            0
        );
    }
}
