//! The files that are checked, read once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::tidy::finding::Finding;
use crate::tidy::source::{BadSource, Source};

/// Folders that hold nothing of ours.
const FOREIGN: &[&str] = &["target", ".git", ".peers", "__pycache__", "node_modules"];

/// Extensions of the files that are checked.
const READ: &[&str] = &["rs", "md", "toml"];

/// Every file of the repository by its path from the top folder.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<String, File>,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    /// Empty where no rule reads the text.
    pub(super) text: String,
    /// The tokens, of a Rust file.
    pub(super) source: Result<Source, BadSource>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if FOREIGN.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let text = if read(&path) {
                    fs::read_to_string(entry.path())?
                } else {
                    String::new()
                };
                self.add(path, text);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, text: String) {
        let rust = if path.ends_with(".rs") {
            text.as_str()
        } else {
            ""
        };
        let source = Source::read(rust);
        self.files.insert(path.clone(), File { path, text, source });
    }

    /// Rust files, without the generated ones.
    pub(super) fn sources(&self) -> impl Iterator<Item = &File> {
        let files = self.files.values();
        files.filter(|file| file.path.ends_with(".rs") && !file.path.contains("/generated/"))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.has_folder(path)
    }

    fn has_folder(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let after = self.files.range(folder.clone()..).next();
        after.is_some_and(|(first, _)| first.starts_with(&folder))
    }
}

fn read(path: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, ending)| READ.contains(&ending))
}

impl File {
    /// The folder of its crate.
    pub(super) fn crate_folder(&self) -> &str {
        let (folder, _) = self.path.split_once("/src/").unwrap_or((&self.path, ""));
        folder
    }

    pub(super) fn finding(&self, line: usize, what: &str) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            what: what.to_owned(),
        }
    }

    /// Whether the whole file is a test, a benchmark, an example or a helper of these.
    pub(super) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let in_folder =
            |folder| self.path.starts_with(folder) || self.path.contains(&format!("/{folder}"));
        ["tests/", "benches/", "examples/"]
            .into_iter()
            .any(in_folder)
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }

    /// Lines of the file that are compiled for tests only, if it is not a test as a whole.
    pub(super) fn test_lines(&self) -> usize {
        self.source.as_ref().map_or(0, |source| source.test_lines)
    }

    /// The tokens, without those of tests.
    pub(super) fn code(&self) -> &[super::source::Token] {
        match &self.source {
            Ok(source) if !self.is_test() => &source.code,
            _ => &[],
        }
    }
}

#[cfg(test)]
impl Tree {
    /// A made-up tree.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add((*path).to_owned(), (*text).to_owned());
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_if_a_file_is_in_it() {
        let tree = Tree::of(&[("crates/flow-net/src/pool.rs", ""), ("flows/echo.yml", "")]);
        assert!(tree.has("crates/flow-net/src"));
        assert!(tree.has("crates/flow-net/"));
        assert!(tree.has("flows/echo.yml"));
        assert!(!tree.has("crates/flow"));
        assert!(!tree.has("flows/encode.yml"));
    }

    #[test]
    fn tests_are_known_by_their_path() {
        let check = |path: &str, expected| {
            let tree = Tree::of(&[(path, "")]);
            assert_eq!(tree.files[path].is_test(), expected, "{path}");
        };
        check("tests/src/lib.rs", true);
        check("crates/flow-net/tests/pool.rs", true);
        check("crates/flow-spec/src/parse/tests.rs", true);
        check("executors/echo/benches/call.rs", true);
        check("crates/flow-net/src/pool.rs", false);
        check("crates/flow-net/src/latests.rs", false);
    }
}
