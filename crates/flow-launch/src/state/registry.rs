//! The list of a user's running flows, for commands that do not name one: one small file per flow in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// The process `flow up`.
    pub pid: u32,
    /// The flow file, as an absolute path.
    pub file: PathBuf,
    /// Its [state directory](crate::StateDirectory).
    #[serde(rename = "folder")]
    pub state_directory: PathBuf,
}

/// A flow's place on the list, for as long as this value lives.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // `running` removes a file that is left behind.
        drop(fs::remove_file(&self.path));
    }
}

/// Puts a flow on the list.
///
/// # Errors
/// If the folder cannot be created or written.
pub fn register(folder: &Path, entry: &RegistryEntry) -> io::Result<Registration> {
    fs::create_dir_all(folder)?;
    let name = entry.state_directory.to_string_lossy().replace('/', "%");
    let last: String = name.chars().rev().take(NAME_LEN_MAX).collect();
    let name: String = last.chars().rev().collect();
    let path = folder.join(format!("{}-{name}.json", entry.pid));
    // Readers must not see an incomplete file.
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, serde_json::to_vec(entry)?)?;
    fs::rename(&unfinished, &path)?;
    Ok(Registration { path })
}

/// Characters of a directory's path that make the name of the file unique; names of files have a limit.
const NAME_LEN_MAX: usize = 100;

/// The running flows, ordered by their state directories. Removes entries of flows that were killed.
#[must_use]
pub fn running(folder: &Path) -> Vec<RegistryEntry> {
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = files.flatten().map(|file| file.path());
    let entries = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let mut found: Vec<RegistryEntry> = entries.filter_map(|path| look(&path)).collect();
    found.sort_by(|a, b| a.state_directory.cmp(&b.state_directory));
    found
}

fn look(path: &Path) -> Option<RegistryEntry> {
    let entry: RegistryEntry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let answers = crate::state::socket::connect(&entry.state_directory).is_ok();
    let is_dead = !Path::new("/proc").join(entry.pid.to_string()).exists();
    if !answers && is_dead {
        drop(fs::remove_file(path));
    }
    answers.then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::directory::StateDirectory;

    #[test]
    fn a_flow_is_listed_while_it_listens() {
        let root = tempfile::tempdir().unwrap();
        let directory = StateDirectory::lock(&root.path().join("home")).unwrap();
        let list = root.path().join("list");
        let entry = RegistryEntry {
            pid: std::process::id(),
            file: "/x/flow.yml".into(),
            state_directory: directory.path().to_owned(),
        };
        assert_eq!(running(&list), []);
        let registration = register(&list, &entry).unwrap();
        assert_eq!(running(&list), [], "it does not listen yet");
        let listener = directory.listen().unwrap();
        assert_eq!(running(&list), [entry]);
        drop(registration);
        assert_eq!(running(&list), []);
        drop(listener);
    }

    #[test]
    fn the_entry_of_a_killed_flow_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let entry = RegistryEntry {
            // Larger than any that Linux gives.
            pid: u32::MAX,
            file: "/x/flow.yml".into(),
            state_directory: root.path().join("home"),
        };
        let registration = register(root.path(), &entry).unwrap();
        assert_eq!(running(root.path()), []);
        assert!(!registration.path.exists());
    }
}
