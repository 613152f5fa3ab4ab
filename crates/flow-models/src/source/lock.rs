//! A lock that lets only one process on this machine fetch a model at a time.
//!
//! The operating system releases it (`flock`) when a process ends, so a lock is never stale.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::progress::DownloadProgress;

/// A held lock. Dropping it releases it.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "closing the file releases the lock")] File);

/// The lock could not be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock `{path}`{}", advice(.source))]
pub(super) struct LockError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// What helps against an error of the file system.
fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => format!(
            ", which is needed to fetch the model: let user {} write to the cache, or read a cache that holds the whole model",
            rustix::process::geteuid().as_raw()
        ),
        _ => String::new(),
    }
}

/// Takes the lock at `path`. If another process holds it, notes that and waits.
///
/// # Errors
///
/// If the lock file cannot be created or locked.
pub(super) fn take(path: &Path, progress: &mut dyn DownloadProgress) -> Result<Lock, LockError> {
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
    // There is no time-out: a download may take long, and if the other process dies, the lock is released.
    progress.note("waiting for another process that is fetching the same model");
    file.lock().map_err(failed)?;
    Ok(Lock(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_cannot_be_written_says_for_whom() {
        let error = LockError {
            path: "/cache/model.lock".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let user = rustix::process::geteuid().as_raw();
        let expected = format!("let user {user} write to the cache");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
