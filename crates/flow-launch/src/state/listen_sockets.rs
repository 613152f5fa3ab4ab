//! The Unix sockets at which executors of a flow listen, in its state directory, which other users cannot enter.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of the sockets, in the state directory of a flow.
const FOLDER: &str = "sockets";

/// Only the owner may look for sockets.
const FOLDER_MODE: u32 = 0o700;

/// The sockets of one running flow.
#[derive(Debug)]
pub(crate) struct ListenSockets {
    folder: PathBuf,
    /// A process that replaces another one listens at its own socket while the other one finishes its requests.
    created: AtomicU64,
}

impl ListenSockets {
    /// Removes what an earlier flow left in the state directory.
    pub(crate) fn open(state_directory: &Path) -> io::Result<Self> {
        // Processes run in other folders than this one.
        let folder = std::path::absolute(state_directory)?.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(FOLDER_MODE).create(&folder)?;
        Ok(Self {
            folder,
            created: AtomicU64::new(0),
        })
    }

    /// The path of a new socket for a process.
    pub(crate) fn path(&self, process: &str) -> PathBuf {
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        let process = process.replace('/', ".");
        self.folder.join(format!("{process}.{number}"))
    }
}

/// The socket of a process, which creates it. Its file is removed when this is dropped, after the last process that
/// listens there.
#[derive(Debug)]
pub(crate) struct ListenSocket(pub(crate) PathBuf);

impl Drop for ListenSocket {
    fn drop(&mut self) {
        match fs::remove_file(&self.0) {
            // The process listens elsewhere, as stock Jina does.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, path = %self.0.display(), "cannot remove a socket");
            }
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_processes_have_the_same_socket_and_none_is_left() {
        let state = tempfile::tempdir().unwrap();
        let sockets = ListenSockets::open(state.path()).unwrap();
        let (one, other) = (sockets.path("a/rep-0"), sockets.path("a/rep-0"));
        assert!(one.ends_with("sockets/a.rep-0.0") && other.ends_with("sockets/a.rep-0.1"));
        fs::write(&one, "").unwrap();
        fs::write(&other, "").unwrap();
        drop(ListenSocket(one.clone()));
        assert!(!one.exists() && other.exists());
        ListenSockets::open(state.path()).unwrap();
        assert!(!other.exists(), "it was left by an earlier flow");
    }
}
