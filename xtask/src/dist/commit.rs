//! The commit that a release is made from, as git describes it.

use std::process::Command;

use anyhow::Context;

use crate::repository::root;
use crate::shell;

/// Digits of a commit's hash.
const HASH_DIGITS: &str = "--short=12";

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    /// Its hash, with `-dirty` if tracked files differ from it.
    pub(super) name: String,
    /// When it was made, in seconds since 1970: the time of all files of a release.
    pub(super) time: u64,
}

impl Commit {
    /// The commit that is checked out.
    pub(super) fn read() -> anyhow::Result<Self> {
        let hash = git(&["rev-parse", HASH_DIGITS, "HEAD"])?;
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        let time = git(&["log", "-1", "--format=%ct"])?;
        let time = time.trim().parse().context("git wrote no time of commit")?;
        let name = name(hash.trim(), &changes);
        Ok(Self { name, time })
    }

    /// A commit that is not known.
    pub(super) fn unknown() -> Self {
        Self {
            name: "unknown".to_owned(),
            time: 0,
        }
    }
}

fn name(hash: &str, changes: &str) -> String {
    let dirty = if changes.is_empty() { "" } else { "-dirty" };
    format!("{hash}{dirty}")
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    shell::output(git.args(arguments).current_dir(root()))
        .context("a release is made from a commit of a git repository")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_with_changed_files_is_dirty() {
        assert_eq!(name("0123456789ab", ""), "0123456789ab");
        assert_eq!(name("0123456789ab", " M a.rs\n"), "0123456789ab-dirty");
    }
}
