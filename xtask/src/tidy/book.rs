//! The book: its table of contents lists every page, and its links stay inside it.
//!
//! mdBook copies only `docs/src`, so a link to another file of the repository would lead nowhere in the built book.

use crate::tidy::finding::Finding;
use crate::tidy::page_links::links;
use crate::tidy::tree::{File, Tree};

/// The folder of the pages, with the slash.
const PAGES: &str = "docs/src/";

const SUMMARY: &str = "docs/src/SUMMARY.md";

const CONFIG: &str = "docs/book.toml";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.files.get(SUMMARY) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if !tree.has(CONFIG) {
        findings.push(summary.finding(1, &format!("there is no `{CONFIG}`")));
    }
    findings.extend(pages(tree).filter_map(|page| unlisted(summary, page)));
    findings.extend(repeated(summary));
    findings.extend(pages(tree).flat_map(leaving));
    findings
}

fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_page = |file: &&File| file.path.starts_with(PAGES) && file.path.ends_with(".md");
    tree.files.values().filter(is_page)
}

fn unlisted(summary: &File, page: &File) -> Option<Finding> {
    let is_listed =
        page.path == SUMMARY || links(summary).iter().any(|link| link.path == page.path);
    (!is_listed).then(|| page.finding(1, &format!("`{SUMMARY}` does not list this page")))
}

/// mdBook would make one page of two entries.
fn repeated(summary: &File) -> Vec<Finding> {
    let links = links(summary);
    let again = links.iter().enumerate().filter(|(at, link)| {
        let before = &links[..*at];
        before.iter().any(|it| it.path == link.path)
    });
    again
        .map(|(_, link)| summary.finding(link.line, &format!("`{}` is listed twice", link.target)))
        .collect()
}

fn leaving(page: &File) -> Vec<Finding> {
    let links = links(page).into_iter();
    let outside = links.filter(|link| !link.path.starts_with(PAGES));
    outside
        .map(|link| {
            let what = format!(
                "`{}` is not part of the book: name it in backticks",
                link.target
            );
            page.finding(link.line, &what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(files: &[(&str, &str)], findings: &[&str]) {
        let mut all = vec![(CONFIG, "[book]"), ("README.md", "")];
        all.extend(files);
        let found = check(&Tree::of(&all)).into_iter();
        let found = found.map(|it| format!("{}:{} {}", it.path, it.line, it.what));
        assert_eq!(found.collect::<Vec<_>>(), findings);
    }

    #[test]
    fn every_page_is_listed_once() {
        let page = ("docs/src/a.md", "# A");
        expect(&[(SUMMARY, "- [A](a.md)"), page], &[]);
        expect(
            &[(SUMMARY, "- nothing"), page],
            &["docs/src/a.md:1 `docs/src/SUMMARY.md` does not list this page"],
        );
        expect(
            &[(SUMMARY, "- [A](a.md)\n- [B](a.md)"), page],
            &["docs/src/SUMMARY.md:2 `a.md` is listed twice"],
        );
    }

    #[test]
    fn links_stay_inside_the_book() {
        expect(
            &[
                (SUMMARY, "- [A](a.md)"),
                ("docs/src/a.md", "[it](../../README.md) [web](https://x.y)"),
            ],
            &["docs/src/a.md:1 `../../README.md` is not part of the book: name it in backticks"],
        );
    }

    #[test]
    fn the_book_has_a_config() {
        assert_eq!(check(&Tree::of(&[(SUMMARY, "")])).len(), 1);
    }
}
