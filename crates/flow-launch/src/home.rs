//! The folder of a running flow: its lock, its log files and its control socket.
//!
//! Each running flow has one to itself. A second one of the same file takes the next name, `<folder>.2`,
//! and so on. The lock is the kernel's, so it never outlives the process.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::control::socket;

/// Running flows of one file; whoever starts more has made a loop by mistake.
const INSTANCES_MAX: u32 = 64;

/// Nobody else may look at our logs, or talk to our socket.
const FOLDER_MODE: u32 = 0o700;

/// The folder of a flow that runs in this process.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    _lock: File,
}

impl Home {
    /// Takes the folder, or the first of its further ones that no running flow has.
    ///
    /// # Errors
    /// If it cannot be made or locked, such as in a read-only home.
    pub fn take(folder: &Path) -> io::Result<Self> {
        for number in 1..=INSTANCES_MAX {
            if let Some(home) = Self::try_take(instance(folder, number))? {
                return Ok(home);
            }
        }
        let all_taken = format!("{INSTANCES_MAX} flows have their folders there already");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, all_taken))
    }

    /// None: another flow has it.
    fn try_take(folder: PathBuf) -> io::Result<Option<Self>> {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(FOLDER_MODE))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self {
                folder,
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the log files of a flow with this folder are.
    #[must_use]
    pub fn logs(folder: &Path) -> PathBuf {
        folder.join("logs")
    }

    pub(crate) fn listen(&self) -> io::Result<std::os::unix::net::UnixListener> {
        socket::listen(&self.folder)
    }
}

/// Connects to the control socket of the flow that has this folder.
///
/// # Errors
/// If no flow runs there.
pub fn connect(folder: &Path) -> io::Result<UnixStream> {
    socket::connect(folder)
}

/// The folder itself, then `<folder>.2`, ….
fn instance(folder: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return folder.to_owned();
    }
    let mut name: OsString = folder.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_running_flow_has_a_folder_to_itself() {
        let root = tempfile::tempdir().unwrap();
        let wanted = root.path().join("a/flow");
        let first = Home::take(&wanted).unwrap();
        let second = Home::take(&wanted).unwrap();
        assert_eq!(first.folder(), wanted);
        assert_eq!(second.folder(), root.path().join("a/flow.2"));
        drop(first);
        assert_eq!(Home::take(&wanted).unwrap().folder(), wanted);
    }

    #[test]
    fn nobody_else_may_look_into_it() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::take(&root.path().join("flow")).unwrap();
        let mode = fs::metadata(home.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Home::take(&file.join("flow")).is_err());
    }
}
