//! Links in documents lead to files and headings that exist.

use std::collections::BTreeSet;

use crate::tidy::documents::{join, prose};
use crate::tidy::finding::Finding;
use crate::tidy::tree::{File, Tree};

/// A link to a file of the repository, or to a heading.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link<'t> {
    /// Line in the document, from 1.
    pub(super) line: usize,
    /// As it is written.
    pub(super) target: &'t str,
    /// Path of the file from the top folder.
    pub(super) path: String,
    anchor: Option<&'t str>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let texts = tree
        .files
        .values()
        .filter(|file| file.path.ends_with(".md"));
    texts.flat_map(|file| dead_links(tree, file)).collect()
}

fn dead_links(tree: &Tree, file: &File) -> Vec<Finding> {
    let dead = |link: &Link<'_>| {
        if !tree.has(&link.path) {
            return Some(file.finding(link.line, &format!("there is no `{}`", link.target)));
        }
        let missing = link
            .anchor
            .filter(|anchor| !has_heading(tree, &link.path, anchor));
        missing.map(|_| file.finding(link.line, &format!("there is no heading `{}`", link.target)))
    };
    links(file).iter().filter_map(dead).collect()
}

/// The links of a document that are not addresses.
pub(super) fn links(file: &File) -> Vec<Link<'_>> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut links = Vec::new();
    for (line, text) in prose(&file.text) {
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains(':')) {
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor)),
                None => (target, None),
            };
            let path = match path {
                "" => file.path.clone(),
                path => join(folder, path),
            };
            links.push(Link {
                line,
                target,
                path,
                anchor,
            });
        }
    }
    links
}

/// Whether a document has a heading with this anchor. Files of other kinds are not looked into.
fn has_heading(tree: &Tree, path: &str, anchor: &str) -> bool {
    match tree.files.get(path) {
        Some(file) if path.ends_with(".md") => anchors(&file.text).contains(anchor),
        _ => true,
    }
}

/// The anchors of a document's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        (title.starts_with(' ') && title.len() < line.len()).then(|| anchor(title.trim()))
    };
    prose(text).filter_map(|(_, line)| heading(line)).collect()
}

fn anchor(title: &str) -> String {
    let letters = title.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, text: &str, findings: &[&str]) {
        let tree = Tree::of(&[
            (path, text),
            ("docs/src/page.md", "# A page\n\n## `with.port`, and more\n"),
            ("flows/encode.yml", ""),
        ]);
        let found = check(&tree)
            .into_iter()
            .map(|it| format!("{} {}", it.line, it.what));
        assert_eq!(found.collect::<Vec<_>>(), findings, "{text}");
    }

    #[test]
    fn links_lead_to_files() {
        expect("A.md", "[it](flows/encode.yml) [web](https://x.y/z)", &[]);
        expect(
            "A.md",
            "a\n[it](flows/decode.yml)",
            &["2 there is no `flows/decode.yml`"],
        );
        expect("tests/load/A.md", "[it](../../flows/encode.yml)", &[]);
        expect("A.md", "```sh\n[it](nowhere)\n```\n", &[]);
    }

    #[test]
    fn anchors_lead_to_headings() {
        expect(
            "docs/src/b.md",
            "[it](page.md#a-page) [that](page.md#withport-and-more)",
            &[],
        );
        expect("docs/src/b.md", "# B\n[it](#b)", &[]);
        expect("docs/src/b.md", "[it](#c)", &["1 there is no heading `#c`"]);
        expect(
            "docs/src/b.md",
            "[it](page.md#page)",
            &["1 there is no heading `page.md#page`"],
        );
    }
}
