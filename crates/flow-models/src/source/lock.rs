//! One fetch of a model at a time on this machine.
//!
//! The lock is the kernel's (`flock`), so a process that is killed gives it up: no lock is ever stale.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::progress::Progress;

/// The right to fetch; given up when dropped.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "closing the file gives the lock up")] File);

/// The lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock `{path}`")]
pub struct LockError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Waits for the lock at `path`; tells the user if that takes a while.
///
/// # Errors
///
/// If the lock file cannot be made or locked.
pub(super) fn take(path: &Path, progress: &mut dyn Progress) -> Result<Lock, LockError> {
    let failed = |source| LockError {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = File::create(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => return Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    // How long the other takes is its network's affair; when it dies, the kernel hands the lock on.
    progress.note("another process is fetching the same model, waiting for it");
    file.lock().map_err(failed)?;
    Ok(Lock(file))
}
