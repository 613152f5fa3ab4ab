//! `cargo xtask tidy`: the project's rules that a compiler does not check.
//!
//! Most of ARCHITECTURE.md's promises are absences, and an absence is easily lost. Each file in here
//! holds the rules of one subject; a rule takes the tree and gives back what breaks it. All findings
//! are reported at once. Rules read [`tree::Tree`], never the disk, so they are tested on made-up files.

mod book;
mod cycles;
mod documents;
mod edges;
mod finding;
mod imports;
mod item_docs;
mod links;
mod logs;
mod page_links;
mod places;
mod report;
mod rows;
mod size;
mod source;
mod tree;
mod type_names;
mod unsafety;

use anyhow::bail;

use crate::tidy::finding::Finding;
use crate::tidy::links::Packages;
use crate::tidy::tree::Tree;

const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    edges::check,
    rows::check,
    cycles::check,
    places::check,
    unsafety::check,
    logs::check,
    size::check,
    type_names::check,
    item_docs::check,
    documents::check,
    page_links::check,
    book::check,
    unreadable,
];

/// The rules about documents alone.
const DOCUMENT_RULES: &[fn(&Tree) -> Vec<Finding>] =
    &[documents::check, page_links::check, book::check];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print statistics of the code instead of checking it.
    #[arg(long)]
    report: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let tree = Tree::read(crate::repository::root())?;
    let packages = Packages::read()?;
    if args.report {
        print!("{}", report::text(&tree, &packages));
        return Ok(());
    }
    let mut findings = findings(RULES, &tree);
    findings.extend(packages.check());
    conclude(&tree, &findings)
}

/// Checks documents only.
pub(crate) fn documents() -> anyhow::Result<()> {
    let tree = Tree::read(crate::repository::root())?;
    conclude(&tree, &findings(DOCUMENT_RULES, &tree))
}

fn conclude(tree: &Tree, findings: &[Finding]) -> anyhow::Result<()> {
    for finding in findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} places are not tidy", findings.len());
    }
    eprintln!("{} files are tidy", tree.files.len());
    Ok(())
}

fn findings(rules: &[fn(&Tree) -> Vec<Finding>], tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

/// A source that is no Rust would pass every other rule.
fn unreadable(tree: &Tree) -> Vec<Finding> {
    let broken = tree
        .sources()
        .filter_map(|file| file.source.as_ref().err().map(|error| (file, error)));
    let findings = broken.map(|(file, error)| file.finding(error.line, &error.to_string()));
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let tree = Tree::read(crate::repository::root()).expect("the tree is there");
        let findings = findings(RULES, &tree);
        let output: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "\n{}", output.join("\n"));
    }

    #[test]
    fn pure_crates_link_no_runtime() {
        let found = Packages::read()
            .expect("cargo describes the workspace")
            .check();
        assert_eq!(found, []);
    }

    #[test]
    fn a_file_that_is_not_rust_is_reported() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "fn f() {\n    )\n}")]);
        assert_eq!(unreadable(&tree).len(), 1);
    }
}
