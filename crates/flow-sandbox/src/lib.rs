//! Limits that a process puts on itself before it becomes another program: `flow sandbox` applies them and calls `exec`, and
//! the kernel keeps them for the program and for all that it starts.
//!
//! | Limit | Means | File |
//! |---|---|---|
//! | changes of files | Landlock | `files.rs` |
//! | sockets | seccomp | `network.rs` |
//! | memory | a control group, or `RLIMIT_DATA` | `memory.rs` |
//! | processors | a control group, or the processors that the process may run on | `processors.rs` |
//!
//! A control group is made by the launcher, which removes it; the process only enters it (`control_group.rs`). In each
//! case the process cannot gain rights by running another program (`no_new_privs`).
//!
//! What applies to a thread is applied to the calling one, which then has to call `exec`.

#![warn(missing_docs)]

mod applied;
mod control_group;
mod error;
mod files;
mod memory;
mod network;
mod processors;

use std::path::PathBuf;

use rustix::thread::set_no_new_privs;

use crate::control_group::Group;

pub use applied::Applied;
pub use error::SandboxError;
pub use files::WritableFiles;

/// What is to be limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Most memory, in bytes.
    pub memory: Option<u64>,
    /// Most processors, in thousandths.
    pub millicpus: Option<u32>,
    /// The process can create Unix sockets only.
    pub no_network: bool,
    /// How files can be changed; `None` for no limit.
    pub files: Option<WritableFiles>,
    /// A control group (cgroup v2) with the limits on memory and processors, as far as the machine has such groups.
    pub control_group: Option<PathBuf>,
}

impl ProcessLimits {
    /// Applies the limits to the calling thread, or to its process. Memory comes last, because what else is done here may
    /// need some.
    ///
    /// # Errors
    /// If a limit cannot be applied by any means. Limits before it stay in place, so the process should end.
    pub fn apply(&self) -> Result<Applied, SandboxError> {
        let mut applied = Applied::default();
        let group = self.control_group.as_deref().map(Group::enter);
        let group = group.transpose()?.unwrap_or_default();
        set_no_new_privs(true).map_err(SandboxError::NoNewPrivileges)?;
        if let Some(millicpus) = self.millicpus {
            processors::limit(millicpus, &group, &mut applied)?;
        }
        if let Some(writable) = &self.files {
            files::restrict(writable, &mut applied)?;
        }
        if self.no_network {
            network::forbid(&mut applied)?;
        }
        if let Some(bytes) = self.memory {
            memory::limit(bytes, &group, &mut applied)?;
        }
        Ok(applied)
    }
}
