//! What every process of a flow does around its work.
//!
//! A process starts its log ([`LogSettings`]), which also logs panics, and follows changes of its filter
//! ([`follow_filter_file`]). It ends when its parent ends ([`end_with_parent`]). It
//! reports on standard output that it is ready ([`Ready`]). It follows SIGTERM and SIGINT ([`on_termination`]), and
//! ends with one of the codes in [`exit`].
//!
//! Nothing here reads the environment or arguments: programs do that and pass values.

#![warn(missing_docs)]

mod event;
pub mod exit;
mod log;
mod parent;
mod signals;

pub use event::{BadProcessEvent, Facts, KeepsState, ProcessEvent, Ready};
pub use log::{
    BadLogFilter, BadLogFormat, BadLogOutput, FILTER_FILE_VARIABLE, LogFilter, LogFormat,
    LogOutput, LogSettings, current_requests, follow_filter_file, on_behalf_of,
};
pub use parent::{NoParent, end_with_parent};
pub use signals::on_termination;
