//! Folders of sandboxed processes, in the state directory of a flow. Each process may write into its own, and into no other part
//! of the state directory: its listening socket and its temporary files are there.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use flow_core::Chain;

use crate::state::process_paths::ProcessPaths;

/// The folder of the folders, in the state directory of a flow.
const FOLDER: &str = "sandboxes";

/// The folders of one running flow. A process that replaces another one has its own folder while the other one finishes its
/// requests.
#[derive(Debug)]
pub(crate) struct SandboxFolders(ProcessPaths);

impl SandboxFolders {
    /// Removes what an earlier flow left in the state directory.
    pub(crate) fn open(state_directory: &Path) -> io::Result<Self> {
        ProcessPaths::open(state_directory, FOLDER).map(Self)
    }

    /// The folder of a new process, which creates it.
    pub(crate) fn path(&self, process: &str) -> PathBuf {
        self.0.next(process)
    }
}

/// The socket of a process in its own folder. It has the folder's name, by which people tell sockets apart.
pub(crate) fn socket_in(folder: &Path) -> PathBuf {
    folder.join(folder.file_name().unwrap_or_default())
}

/// Removes the folder of a process that has ended, on a thread where that may take its time.
pub(crate) async fn remove(folder: PathBuf) {
    let path = folder.clone();
    let removed = tokio::task::spawn_blocking(move || fs::remove_dir_all(path)).await;
    match removed {
        // The process never started.
        Ok(Err(error)) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(error = %Chain(&error), folder = %folder.display(), "cannot remove the folder of a sandbox");
        }
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_process_has_a_folder_until_it_ends_or_the_flow_starts_again() {
        let state = tempfile::tempdir().unwrap();
        let folders = SandboxFolders::open(state.path()).unwrap();
        let (one, other) = (folders.path("a/rep-0"), folders.path("a/rep-0"));
        assert!(one.ends_with("sandboxes/a.rep-0.0") && other.ends_with("sandboxes/a.rep-0.1"));
        assert!(socket_in(&one).ends_with("a.rep-0.0/a.rep-0.0"));
        for it in [&one, &other] {
            fs::create_dir_all(it.join("tmp/deep")).unwrap();
        }
        remove(one.clone()).await;
        remove(one.clone()).await;
        assert!(!one.exists() && other.exists());
        SandboxFolders::open(state.path()).unwrap();
        assert!(!other.exists(), "it was left by an earlier flow");
    }
}
