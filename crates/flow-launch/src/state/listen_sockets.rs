//! The Unix sockets at which executors of a flow listen, in its state directory, which other users cannot enter.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::state::process_paths::ProcessPaths;

/// The folder of the sockets, in the state directory of a flow.
const FOLDER: &str = "sockets";

/// The sockets of one running flow. A process that replaces another one listens at its own socket while the other one finishes
/// its requests.
#[derive(Debug)]
pub(crate) struct ListenSockets(ProcessPaths);

impl ListenSockets {
    /// Removes what an earlier flow left in the state directory.
    pub(crate) fn open(state_directory: &Path) -> io::Result<Self> {
        ProcessPaths::open(state_directory, FOLDER).map(Self)
    }

    /// The path of a new socket for a process.
    pub(crate) fn path(&self, process: &str) -> PathBuf {
        self.0.next(process)
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
