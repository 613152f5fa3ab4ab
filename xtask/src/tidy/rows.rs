//! The table of crates in ARCHITECTURE.md: a crate uses crates of lower rows only, and each library is in a row.

use std::collections::BTreeMap;

use crate::tidy::edges::{dependencies_of, package};
use crate::tidy::finding::Finding;
use crate::tidy::tree::{File, Tree};

const PAGE: &str = "ARCHITECTURE.md";

/// The line above the rows.
const HEADING: &str = "| Row | Crates |";

/// Libraries that are not in the table, because only tests use them.
const OF_TESTS: &[&str] = &["flow-amx-emulator", "flow-cuda-emulator"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.files.get(PAGE) else {
        return Vec::new();
    };
    let rows = rows(&page.text);
    let manifests = tree.files.values();
    let manifests =
        manifests.filter(|it| it.path.starts_with("crates/") && it.path.ends_with("Cargo.toml"));
    let packages = manifests.filter_map(|file| Some((package(&file.text)?, file)));
    let mut findings = Vec::new();
    for (name, manifest) in packages {
        match rows.get(name) {
            Some(row) => findings.extend(upward(&rows, (name, *row), manifest)),
            None if OF_TESTS.contains(&name) => {}
            None => findings.push(manifest.finding(
                1,
                &format!("`{name}` is in no row of the table of crates in {PAGE}"),
            )),
        }
    }
    findings
}

/// The edges of a crate that do not lead to a lower row.
fn upward(
    rows: &BTreeMap<&str, usize>,
    (name, row): (&str, usize),
    manifest: &File,
) -> Vec<Finding> {
    let used = dependencies_of(manifest, |used| {
        rows.get(used).is_some_and(|other| *other <= row)
    });
    let finding = |(line, used)| {
        let what = format!("`{name}` uses `{used}`, which is not in a lower row of {PAGE}");
        manifest.finding(line, &what)
    };
    used.into_iter().map(finding).collect()
}

/// The row of each crate, from the top.
fn rows(text: &str) -> BTreeMap<&str, usize> {
    let lines = text.lines().skip_while(|line| !line.starts_with(HEADING));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let mut found = BTreeMap::new();
    for (number, row) in rows.enumerate() {
        let crates = row.split('|').nth(2).unwrap_or_default();
        let names = crates.split('`').skip(1).step_by(2);
        found.extend(names.map(|name| (name, number)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| Row | Crates | Responsibility |\n|---|---|---|\n| top | `a`, `b` | x `c` |\n| below | `c` | y |\n\n`d`\n";

    #[track_caller]
    fn expect(name: &str, used: &str, findings: &[&str]) {
        let manifest = format!("[package]\nname = \"{name}\"\n[dependencies]\n{used} = \"1\"\n");
        let tree = Tree::of(&[(PAGE, TABLE), ("crates/x/Cargo.toml", &manifest)]);
        let found = check(&tree)
            .into_iter()
            .map(|it| format!("{} {}", it.line, it.what));
        assert_eq!(found.collect::<Vec<_>>(), findings);
    }

    #[test]
    fn edges_lead_to_lower_rows() {
        expect("a", "c", &[]);
        expect("a", "serde", &[]);
        let finding =
            |name, used| format!("4 `{name}` uses `{used}`, which is not in a lower row of {PAGE}");
        expect("a", "b", &[&finding("a", "b")]);
        expect("c", "a", &[&finding("c", "a")]);
    }

    #[test]
    fn each_crate_is_in_a_row() {
        let missing = "1 `d` is in no row of the table of crates in ARCHITECTURE.md";
        expect("d", "a", &[missing]);
        expect("flow-amx-emulator", "a", &[]);
    }
}
