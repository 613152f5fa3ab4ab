//! Common functions of all processes: log, events, signals, exit codes.
//!
//! A process starts its log ([`LogSettings`]), which also logs panics, and follows changes of its filter
//! ([`follow_filter_file`]); lines can be exported, too ([`export_records`]). A thread writes the lines, so that no
//! other one waits for the output. Before the process exits, it waits for the last lines ([`flush_log`]). It ends when its parent ends ([`end_with_parent`]). It
//! reports on standard output that it is ready ([`ReadyEvent`]), and says at a socket how it does ([`serve_status`]). It
//! follows SIGTERM and SIGINT ([`on_termination`]), and ends with one of the codes in [`exit`].
//!
//! Nothing here reads the environment or arguments: programs do that and pass values.

#![warn(missing_docs)]

mod event;
pub mod exit;
mod in_memory_file;
mod listen_address;
mod log;
mod lossy;
mod parent;
mod signals;
mod status_socket;
mod unix_socket;

pub use event::{BadProcessEvent, Facts, KeepsState, ProcessEvent, ReadyEvent};
pub use in_memory_file::in_memory_file;
pub use listen_address::{LISTEN_SOCKET_VARIABLE, ListenAddress};
pub use log::{
    BadLogFilter, BadLogFormat, BadLogOutput, FILTER_FILE_VARIABLE, LogFilter, LogFormat,
    LogOutput, LogRecord, LogSettings, LogValue, RecordsExported, SpanIds, current_requests,
    export_records, flush_log, follow_filter_file, note_span, on_behalf_of,
};
pub use lossy::{DroppedLines, LossyReceiver, LossySender, lossy_channel};
pub use parent::{NoParent, end_with_parent};
pub use signals::on_termination;
pub use status_socket::{STATUS_SOCKET_VARIABLE, read_status, serve_status};
pub use unix_socket::{connect_to, listen_at};
