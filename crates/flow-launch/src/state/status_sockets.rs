//! The sockets at which the processes of a flow report their status (`flow_process::serve_status`).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The folder of the sockets, in the state directory of a flow.
const FOLDER: &str = "status";

/// The socket of a process of the flow with the state directory `path`, in a folder of its own: a sandboxed process may write
/// there.
#[must_use]
pub fn status_socket(path: &Path, process: &str) -> PathBuf {
    path.join(FOLDER).join(process).join("socket")
}

/// The sockets of one running flow.
#[derive(Debug, Clone)]
pub(crate) struct StatusSockets {
    state_directory: PathBuf,
}

impl StatusSockets {
    /// Removes what an earlier flow left in the state directory.
    pub(crate) fn open(state_directory: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(state_directory.join(FOLDER)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Processes run in other folders than this one.
        let state_directory = std::path::absolute(state_directory)?;
        Ok(Self { state_directory })
    }

    /// The socket of a process, which creates it.
    pub(crate) fn of(&self, process: &str) -> PathBuf {
        status_socket(&self.state_directory, process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_starts_removes_the_sockets_of_an_earlier_one() {
        let state = tempfile::tempdir().unwrap();
        let sockets = StatusSockets::open(state.path()).unwrap();
        let (one, other) = (sockets.of("a"), sockets.of("a/rep-1"));
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&one, "").unwrap();
        fs::write(&other, "").unwrap();
        StatusSockets::open(state.path()).unwrap();
        assert!(!one.exists() && !other.exists());
    }
}
