//! Finds what the tests left behind: in the Docker engine, by label, and in the checkout.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Context;

use crate::shell;

/// On all that tests make in the engine; see `tests/it/docker/leftovers.rs`.
const LABEL: &str = "label=dev.flow.test";

/// How what may be left in the engine is listed.
const KINDS: &[(&str, &[&str])] = &[
    ("container", &["ps", "-aq"]),
    ("image", &["images", "-aq"]),
    ("volume", &["volume", "ls", "-q"]),
    ("network", &["network", "ls", "-q"]),
];

/// What there was before the tests.
#[derive(Debug)]
pub(crate) struct Before {
    checkout: BTreeSet<String>,
}

impl Before {
    /// Looks around, before the tests.
    pub(crate) fn look() -> anyhow::Result<Self> {
        Ok(Self {
            checkout: checkout()?,
        })
    }

    /// Fails if there is more than before.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let mut left = engine();
        left.extend(self.new_files(&checkout()?));
        anyhow::ensure!(
            left.is_empty(),
            "the tests left something behind: {}",
            left.join(", ")
        );
        Ok(())
    }

    fn new_files(&self, now: &BTreeSet<String>) -> Vec<String> {
        let new = now.difference(&self.checkout);
        new.map(|path| format!("file {path}")).collect()
    }
}

/// What carries the tests' label. An engine that does not answer holds nothing of theirs.
fn engine() -> Vec<String> {
    let mut left = Vec::new();
    for (kind, list) in KINDS {
        let mut docker = Command::new("docker");
        docker.args(*list).args(["--filter", LABEL]);
        let found = shell::output(&mut docker).unwrap_or_default();
        let ids: BTreeSet<&str> = found.lines().collect();
        left.extend(ids.iter().map(|id| format!("{kind} {id}")));
    }
    left
}

/// Files that git does not track or ignores. A folder of nothing else is one entry.
fn checkout() -> anyhow::Result<BTreeSet<String>> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain", "--ignored"]);
    git.current_dir(crate::repository::root());
    let status = shell::output(&mut git).context("cannot ask git what the tests changed")?;
    Ok(status
        .lines()
        .filter_map(unknown)
        .map(str::to_owned)
        .collect())
}

/// The path of a line about a file that is not in the repository.
fn unknown(line: &str) -> Option<&str> {
    let path = line.strip_prefix("?? ").or(line.strip_prefix("!! "))?;
    // Made by the build and by `cargo xtask setup`.
    let is_made = path.starts_with("target/") || path.starts_with(".peers");
    (!is_made).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_beside_the_build_are_left_behind() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(unknown(line), expected);
        check("?? data/", Some("data/"));
        check("!! flows/__pycache__/", Some("flows/__pycache__/"));
        check("!! target/", None);
        check("!! .peers/", None);
        check(" M README.md", None);
    }

    #[test]
    fn only_what_is_new_was_left_by_the_tests() {
        let set = |paths: &[&str]| paths.iter().map(|it| (*it).to_owned()).collect();
        let before = Before {
            checkout: set(&["notes"]),
        };
        assert_eq!(before.new_files(&set(&["notes"])), [""; 0]);
        assert_eq!(before.new_files(&set(&["data/", "notes"])), ["file data/"]);
    }
}
