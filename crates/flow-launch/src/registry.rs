//! Which flows run, for commands that were not told: one small file for each, in a folder of the user's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A running flow, as it has put itself down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The process `flow up`.
    pub pid: u32,
    /// The flow file, from the root.
    pub file: PathBuf,
    /// Its folder, see [`Home`](crate::Home).
    pub folder: PathBuf,
}

/// A flow's entry, which goes with it.
#[derive(Debug)]
pub struct Entered {
    path: PathBuf,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Whoever meets one that was left behind removes it.
        drop(fs::remove_file(&self.path));
    }
}

/// Puts a flow down.
///
/// # Errors
/// If the folder cannot be made or written.
pub fn enter(folder: &Path, entry: &Entry) -> io::Result<Entered> {
    fs::create_dir_all(folder)?;
    let name = entry.folder.to_string_lossy().replace('/', "%");
    let last: String = name.chars().rev().take(NAME_LEN_MAX).collect();
    let name: String = last.chars().rev().collect();
    let path = folder.join(format!("{}-{name}.json", entry.pid));
    // Readers must not see half of it.
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, serde_json::to_vec(entry)?)?;
    fs::rename(&unfinished, &path)?;
    Ok(Entered { path })
}

/// Part of a folder's path that makes the entry's name its own; names of files have a bound.
const NAME_LEN_MAX: usize = 100;

/// The flows that run, by the order of their folders. Entries of flows that were killed are removed.
#[must_use]
pub fn running(folder: &Path) -> Vec<Entry> {
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = files.flatten().map(|file| file.path());
    let entries = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let mut found: Vec<Entry> = entries.filter_map(|path| look(&path)).collect();
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    found
}

fn look(path: &Path) -> Option<Entry> {
    let entry: Entry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let answers = crate::home::connect(&entry.folder).is_ok();
    let is_dead = !Path::new("/proc").join(entry.pid.to_string()).exists();
    if !answers && is_dead {
        drop(fs::remove_file(path));
    }
    answers.then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    #[test]
    fn a_flow_is_found_while_it_listens_and_gone_with_it() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::take(&root.path().join("home")).unwrap();
        let list = root.path().join("list");
        let entry = Entry {
            pid: std::process::id(),
            file: "/x/flow.yml".into(),
            folder: home.folder().to_owned(),
        };
        assert_eq!(running(&list), []);
        let entered = enter(&list, &entry).unwrap();
        assert_eq!(running(&list), [], "it does not listen yet");
        let listener = home.listen().unwrap();
        assert_eq!(running(&list), [entry]);
        drop(entered);
        assert_eq!(running(&list), []);
        drop(listener);
    }

    #[test]
    fn what_a_killed_flow_left_behind_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let entry = Entry {
            // Larger than any that Linux gives.
            pid: u32::MAX,
            file: "/x/flow.yml".into(),
            folder: root.path().join("home"),
        };
        let entered = enter(root.path(), &entry).unwrap();
        assert_eq!(running(root.path()), []);
        assert!(!entered.path.exists());
    }
}
