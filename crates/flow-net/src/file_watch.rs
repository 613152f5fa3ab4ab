//! Notices that files have changed.
//!
//! Files are looked at from time to time instead of being watched by the kernel: programs replace files, clusters replace
//! the links to them, and network file systems report nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Some files, and their state when they were read.
#[derive(Debug, Clone)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    read: Vec<Option<State>>,
}

/// Modification time, length and inode of a file.
type State = (SystemTime, u64, u64);

impl FileWatch {
    /// Notes the state of files. To be called before they are read, so that no change is missed.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let read = states(&paths);
        Self { paths, read }
    }

    /// Returns when a file has changed, and then not between two looks: a program may still write it, or its neighbour.
    pub async fn changed(&mut self, look_every: Duration) {
        let mut last = self.read.clone();
        loop {
            tokio::time::sleep(look_every).await;
            let now = self.look().await;
            if now != self.read && now == last {
                self.read = now;
                return;
            }
            last = now;
        }
    }

    /// The present states. The files may be on a network file system, so another thread looks at them.
    async fn look(&self) -> Vec<Option<State>> {
        let paths = self.paths.clone();
        let looking = tokio::task::spawn_blocking(move || states(&paths));
        looking.await.unwrap_or_else(|_| self.read.clone())
    }
}

fn states(paths: &[PathBuf]) -> Vec<Option<State>> {
    paths.iter().map(|path| state(path)).collect()
}

/// The state of a file; `None` if there is none.
fn state(path: &Path) -> Option<State> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_file_that_is_written_replaced_or_removed_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let mut watch = FileWatch::new(vec![path.clone()]);
        fs::write(&path, "longer").unwrap();
        watch.changed(EVERY).await;
        let other = folder.path().join("other");
        fs::write(&other, "second").unwrap();
        fs::rename(&other, &path).unwrap();
        watch.changed(EVERY).await;
        fs::remove_file(&path).unwrap();
        watch.changed(EVERY).await;
    }

    #[tokio::test]
    async fn files_that_stay_as_they_are_have_not_changed() {
        let watch = &mut FileWatch::new(vec![PathBuf::from("/nowhere")]);
        let waited = tokio::time::timeout(EVERY * 20, watch.changed(EVERY));
        assert!(waited.await.is_err());
    }
}
