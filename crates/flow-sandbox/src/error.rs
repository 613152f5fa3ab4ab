//! Why a sandbox cannot be applied.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// A limit that cannot be applied by any means.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel has no Landlock.
    #[error(
        "`read_only` needs Landlock, which {reason}; leave `read_only` out, or run the executor in a container"
    )]
    NoLandlock {
        /// Why.
        reason: &'static str,
    },
    /// Landlock refuses the rules.
    #[error("cannot restrict the files that can be changed")]
    Landlock(#[source] landlock::RulesetError),
    /// A folder that is to stay writable cannot be opened.
    #[error("cannot open `{}`, which is to stay writable", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: landlock::PathFdError,
    },
    /// The kernel does not take the filter of system calls.
    #[error(
        "`no_network` needs seccomp, and the kernel does not take its filter; leave `no_network` out, or run the executor in a container"
    )]
    Seccomp(#[source] seccompiler::Error),
    /// The filter does not exist for this kind of machine.
    #[error(
        "`no_network` is not possible on this kind of machine; leave `no_network` out, or run the executor in a container"
    )]
    Filter(#[source] seccompiler::BackendError),
    /// The limit on memory cannot be set.
    #[error("cannot limit the memory to {bytes} bytes")]
    Memory {
        /// The limit.
        bytes: u64,
        /// The cause.
        source: Errno,
    },
    /// The processors cannot be set.
    #[error("cannot limit the processors on which the process runs")]
    Processors(#[source] Errno),
    /// The control group cannot be entered.
    #[error("cannot enter the control group `{}`", path.display())]
    ControlGroup {
        /// Its folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Privileges cannot be given up.
    #[error("cannot give up the right to gain privileges (`no_new_privs`)")]
    NoNewPrivileges(#[source] Errno),
}
