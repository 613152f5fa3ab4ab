//! The state directory of a running flow: its lock, its log files and its control socket.
//!
//! Each running flow has its own. A second flow of the same file uses the next name, `<directory>.2`, and so on. The
//! kernel holds the lock, so it never outlives the process.
//!
//! The directory may be in a folder to which other users can write, such as a workspace in `/tmp`. Therefore it must be a
//! directory of this user, and no link; otherwise another user could have made it, and would own what is stored there.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fchmod, openat};

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
        if let Some(parent) = path.parent() {
            create(DirBuilder::new().recursive(true), parent)?;
        }
        create(&mut DirBuilder::new(), &path)?;
        let directory = open_own(&path)?;
        let lock = open_lock(&directory)?;
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

/// Creates a directory, unless something has its name.
fn create(builder: &mut DirBuilder, path: &Path) -> io::Result<()> {
    match builder.mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Opens a directory that only this user can have made, and closes it to others. What is checked and changed is what
/// was opened, not what has the name later.
fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let directory = opened.map_err(|error| not_a_directory(path, error))?;
    let (owner, user) = (directory.metadata()?.uid(), rustix::process::geteuid());
    if owner != user.as_raw() {
        let user = user.as_raw();
        let message = format!(
            "`{}` belongs to user {owner}, not to user {user} who runs the flow; remove it, or use another workspace",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    fchmod(&directory, Mode::from_raw_mode(DIRECTORY_MODE))?;
    Ok(directory)
}

/// Says if the path is a link, for which the system has several errors.
fn not_a_directory(path: &Path, error: io::Error) -> io::Error {
    let is_link = fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    if !is_link {
        return error;
    }
    let message = format!(
        "`{}` is a symbolic link, but must be a directory; remove the link",
        path.display()
    );
    io::Error::new(error.kind(), message)
}

/// Opens the lock in a directory. It is no link, which could lead to a file that the flow would create elsewhere.
fn open_lock(directory: &File) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(directory, "lock", flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(lock))
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
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        assert_eq!(mode(directory.path()), 0o700);
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_directory_that_was_open_to_others_is_closed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("flow");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        StateDirectory::lock(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (target, link) = (root.path().join("target"), root.path().join("flow"));
        fs::create_dir(&target).unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
        symlink(&target, &link).unwrap();
        let error = StateDirectory::lock(&link).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        assert_eq!(mode(&target), 0o755, "the target was changed");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_that_is_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("flow");
        fs::create_dir(&directory).unwrap();
        let elsewhere = root.path().join("elsewhere");
        symlink(&elsewhere, directory.join("lock")).unwrap();
        assert!(StateDirectory::lock(&directory).is_err());
        assert!(!elsewhere.exists());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("flow");
        fs::create_dir(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
            eprintln!("SKIPPED: only root can give a directory to another user");
            return;
        }
        let error = StateDirectory::lock(&path).unwrap_err().to_string();
        let expected = format!("`{}` belongs to user 12345, not to user 0", path.display());
        assert!(error.contains(&expected), "{error}");
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(StateDirectory::lock(&file.join("flow")).is_err());
    }
}
