//! A socket at which a process reports its status, for programs of the same user on this machine.
//!
//! It is in the state directory of the flow, which other users cannot enter, and not behind a port of the process: there it
//! would need API keys, certificates and monitoring to be as they are in this flow. Nothing is counted or written for it
//! unless a client connects.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use crate::unix_socket::{connect_to, listen_at};

/// The variable with the path of the socket. Launchers set it.
pub const STATUS_SOCKET_VARIABLE: &str = "FLOW_STATUS_SOCKET";

/// Time for the other side to write or read a status. Both are on the same machine.
const WITHIN: Duration = Duration::from_secs(1);

/// Most bytes of a status: that of a gateway has a few hundred for each replica.
const STATUS_LEN_MAX: u64 = 16 << 20;

/// Wait after a failed accept: no file descriptors are left, and there may be some soon.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// Writes the status to each caller of a socket for as long as this process lives.
///
/// # Errors
///
/// If the socket cannot be created, or no thread can be started.
pub fn serve_status(path: &Path, status: impl Fn() -> String + Send + 'static) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let listener = listen_at(path)?;
    thread::Builder::new()
        .name("status".to_owned())
        .spawn(move || answer_all(&listener, &status))
        .map(drop)
}

fn answer_all(listener: &UnixListener, status: &dyn Fn() -> String) {
    loop {
        match listener.accept() {
            // A caller that leaves early wants no answer any more.
            Ok((caller, _)) => drop(answer(caller, &status())),
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection to the status socket");
                thread::sleep(ACCEPT_RETRY_AFTER);
            }
        }
    }
}

fn answer(mut caller: UnixStream, status: &str) -> io::Result<()> {
    caller.set_write_timeout(Some(WITHIN))?;
    caller.write_all(status.as_bytes())
}

/// The status of the process that serves it at this path.
///
/// # Errors
///
/// If no process does, or it does not answer within a second.
pub fn read_status(path: &Path) -> io::Result<String> {
    let socket = connect_to(path)?;
    socket.set_read_timeout(Some(WITHIN))?;
    let mut status = String::new();
    socket.take(STATUS_LEN_MAX).read_to_string(&mut status)?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_caller_gets_the_newest_status() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/rep-0.sock");
        assert!(read_status(&path).is_err());
        let asked = AtomicUsize::new(0);
        let status = move || format!("asked {}", asked.fetch_add(1, Ordering::Relaxed));
        serve_status(&path, status).unwrap();
        drop(connect_to(&path).unwrap());
        assert_eq!(read_status(&path).unwrap(), "asked 1");
        assert_eq!(read_status(&path).unwrap(), "asked 2");
    }
}
