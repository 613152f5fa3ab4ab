//! The state directory of a running flow: its lock, its log files and its control socket.
//!
//! Each running flow has its own. A second flow of the same file uses the next name, `<directory>.2`, and so on. The
//! kernel holds the lock, so it never outlives the process.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::state::socket;

/// Running flows of one file. More of them are a loop by mistake.
const INSTANCES_MAX: u32 = 64;

/// Other users may neither read the logs nor connect to the socket.
const DIRECTORY_MODE: u32 = 0o700;

/// The state directory of a flow that runs in this process.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    _lock: File,
}

impl StateDirectory {
    /// Locks the directory, or the next one that no running flow has locked.
    ///
    /// # Errors
    /// If it cannot be created or locked, such as in a read-only home.
    pub fn lock(path: &Path) -> io::Result<Self> {
        for number in 1..=INSTANCES_MAX {
            if let Some(directory) = Self::try_lock(instance(path, number))? {
                return Ok(directory);
            }
        }
        let all_taken =
            format!("{INSTANCES_MAX} running flows have their state directories there already");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, all_taken))
    }

    /// `None` if another flow has locked it.
    fn try_lock(path: PathBuf) -> io::Result<Option<Self>> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(DIRECTORY_MODE))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { path, _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for the log files in the state directory `path`.
    #[must_use]
    pub fn logs(path: &Path) -> PathBuf {
        path.join("logs")
    }

    pub(crate) fn listen(&self) -> io::Result<std::os::unix::net::UnixListener> {
        socket::listen(&self.path)
    }
}

/// Connects to the control socket of the flow with the state directory `path`.
///
/// # Errors
/// If no flow runs there.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    socket::connect(path)
}

/// The directory itself, then `<directory>.2`, ….
fn instance(path: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_running_flow_has_its_own_directory() {
        let root = tempfile::tempdir().unwrap();
        let wanted = root.path().join("a/flow");
        let first = StateDirectory::lock(&wanted).unwrap();
        let second = StateDirectory::lock(&wanted).unwrap();
        assert_eq!(first.path(), wanted);
        assert_eq!(second.path(), root.path().join("a/flow.2"));
        drop(first);
        assert_eq!(StateDirectory::lock(&wanted).unwrap().path(), wanted);
    }

    #[test]
    fn other_users_may_not_enter_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = StateDirectory::lock(&root.path().join("flow")).unwrap();
        let mode = fs::metadata(directory.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(StateDirectory::lock(&file.join("flow")).is_err());
    }
}
