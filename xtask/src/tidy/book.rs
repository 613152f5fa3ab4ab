//! The book: its table of contents lists every page, and its links stay inside it.
//!
//! mdBook copies only `docs/src`, so a link to another file of the repository would lead nowhere in the built book.

use crate::tidy::documents::prose;
use crate::tidy::finding::Finding;
use crate::tidy::page_links::links;
use crate::tidy::tree::{File, Tree};

/// The folder of the pages, with the slash.
const PAGES: &str = "docs/src/";

const SUMMARY: &str = "docs/src/SUMMARY.md";

const CONFIG: &str = "docs/book.toml";

/// The folder of decision records, whose names begin with a number.
const RECORDS: &str = "docs/src/decisions/";

/// The sections of a decision record.
const SECTIONS: &[&str] = &["Context", "Options", "Choice", "Consequence"];

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
    findings.extend(pages(tree).filter_map(incomplete_record));
    findings
}

/// A decision record that has other sections than all have.
fn incomplete_record(page: &File) -> Option<Finding> {
    let name = page.path.strip_prefix(RECORDS)?;
    if !name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let headings = prose(&page.text).filter_map(|(_, line)| line.strip_prefix("## "));
    let is_complete = headings.eq(SECTIONS.iter().copied());
    let sections = SECTIONS.join("`, `## ");
    (!is_complete)
        .then(|| page.finding(1, &format!("the sections of a record are `## {sections}`")))
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
    fn each_decision_record_has_the_same_sections() {
        let check = |text: &str, findings: &[&str]| {
            let summary = "- [A](decisions/0001-a.md)\n- [B](decisions/index.md)";
            let index = ("docs/src/decisions/index.md", "## All");
            expect(
                &[
                    (SUMMARY, summary),
                    ("docs/src/decisions/0001-a.md", text),
                    index,
                ],
                findings,
            );
        };
        check(
            "## Context\n## Options\n### A\n## Choice\n## Consequence\n",
            &[],
        );
        let finding = "docs/src/decisions/0001-a.md:1 the sections of a record are `## Context`, `## Options`, `## Choice`, `## Consequence`";
        check(
            "## Context\n## Choice\n## Options\n## Consequence\n",
            &[finding],
        );
        check("## Context\n## Options\n## Choice\n", &[finding]);
    }

    #[test]
    fn the_book_has_a_config() {
        assert_eq!(check(&Tree::of(&[(SUMMARY, "")])).len(), 1);
    }
}
