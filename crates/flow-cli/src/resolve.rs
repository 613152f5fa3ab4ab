//! Completes the plan of a flow file for this machine: programs in place of the paths of executors, and absolute folders.

#[cfg(feature = "launch")]
mod files_read;
mod folders;
#[cfg(feature = "launch")]
mod uses;

#[cfg(feature = "launch")]
pub(crate) use self::files_read::FilesRead;
pub(crate) use self::folders::resolve_folders;
#[cfg(feature = "launch")]
pub(crate) use self::uses::{Start, resolve_uses, resolve_uses_unbuilt};
