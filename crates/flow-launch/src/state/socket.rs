//! The control socket in a state directory.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use flow_process::{connect_to, listen_at};

/// The socket's name in its directory.
const NAME: &str = "flow.sock";

/// Listens in a directory that this flow has locked. Replaces a socket that an earlier flow left behind.
pub(crate) fn listen(folder: &Path) -> io::Result<UnixListener> {
    listen_at(&folder.join(NAME))
}

/// Connects to the flow with this state directory.
pub(crate) fn connect(folder: &Path) -> io::Result<UnixStream> {
    connect_to(&folder.join(NAME))
}
