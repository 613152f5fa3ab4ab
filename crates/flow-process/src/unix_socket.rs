//! Unix sockets by their path, whatever its length. The kernel takes about a hundred bytes of a socket's path, so a longer
//! one goes through the descriptor of the opened directory.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes of a socket's path that every kernel takes.
const PATH_LEN_MAX: usize = 100;

/// Only the owner may connect.
const SOCKET_MODE: u32 = 0o600;

/// Listens at a path in a directory that no other process uses. Replaces a socket that an earlier process left behind.
///
/// # Errors
///
/// If the socket cannot be created.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short_path(path, |short| UnixListener::bind(short))?;
    // The directory keeps other users out; this protects the socket too.
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

/// Connects to the process that listens at a path.
///
/// # Errors
///
/// If none does.
pub fn connect_to(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |short| UnixStream::connect(short))
}

/// Calls `open` with a path of the socket that is short enough.
fn with_short_path<T>(path: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return open(path);
    };
    if path.as_os_str().len() <= PATH_LEN_MAX {
        return open(path);
    }
    let opened = File::open(folder)?;
    let short: PathBuf = format!("/proc/self/fd/{}", opened.as_raw_fd()).into();
    open(&short.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path) {
        // The second time over what the first one left.
        for _ in 0..2 {
            let listener = listen_at(path).unwrap();
            connect_to(path).unwrap();
            listener.accept().unwrap();
        }
        assert!(connect_to(path).is_err(), "nothing listens any more");
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_socket_is_reached_by_its_path_however_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        check(&folder.path().join("flow.sock"));
        let deep = folder
            .path()
            .join("deep".repeat(40))
            .join("deeper".repeat(30));
        fs::create_dir_all(&deep).unwrap();
        check(&deep.join("flow.sock"));
    }
}
