//! One child of the supervisor: its start, its ready line, its output and its exit.

pub(crate) mod backend;
pub(crate) mod child;
pub(crate) mod control_group;
pub(crate) mod error;
pub(crate) mod exit_status;
pub(crate) mod local;
pub(crate) mod output;
pub(crate) mod ready;
pub(crate) mod system;
