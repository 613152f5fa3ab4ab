//! The exit codes of every program.

/// An error that is not the user's.
pub const FAILURE: u8 = 1;

/// A wrong argument, variable or file. clap exits with it too.
pub const USAGE: u8 = 2;

/// A failure after which the executor's process is to end: `EX_SOFTWARE` of sysexits.h.
pub const EXECUTOR_FAILED: u8 = 70;

/// A second signal ended the process before its requests were finished: 128 and the number of SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;
