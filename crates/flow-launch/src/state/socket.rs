//! The control socket in a state directory, whatever the length of its path. The kernel takes about a hundred bytes of a
//! socket's path, so a longer one goes through the descriptor of the opened directory.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name in its directory.
pub(crate) const NAME: &str = "flow.sock";

/// Bytes of a socket's path that every kernel takes.
const PATH_LEN_MAX: usize = 100;

/// Calls `open` with a path of the socket that is short enough.
fn with_short_path<T>(folder: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = folder.join(NAME);
    if path.as_os_str().len() <= PATH_LEN_MAX {
        return open(&path);
    }
    let opened = File::open(folder)?;
    let short: PathBuf = format!("/proc/self/fd/{}/{NAME}", opened.as_raw_fd()).into();
    open(&short)
}

/// Listens in a directory that this flow has locked. Replaces a socket that an earlier flow left behind.
pub(crate) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short_path(folder, |short| UnixListener::bind(short))?;
    // The directory keeps other users out; this protects the socket too.
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the flow with this state directory.
pub(crate) fn connect(folder: &Path) -> io::Result<UnixStream> {
    with_short_path(folder, |short| UnixStream::connect(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &Path) {
        // The second time over what the first one left.
        for _ in 0..2 {
            let listener = listen(folder).unwrap();
            connect(folder).unwrap();
            listener.accept().unwrap();
        }
        assert!(connect(folder).is_err(), "nothing listens any more");
        let mode = fs::metadata(folder.join(NAME))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_socket_is_reached_by_its_folder_however_long_its_path() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path());
        let deep = folder
            .path()
            .join("deep".repeat(40))
            .join("deeper".repeat(30));
        fs::create_dir_all(&deep).unwrap();
        check(&deep);
    }
}
